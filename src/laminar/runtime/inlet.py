"""The way in for one connector: polled on a thread of its own, through a bridge, into segments.

Ring 1 polls a range, sends it through the bridge and, when the policy closes a batch, writes it as
a segment: all of that while epochs run. An epoch only takes what is ready. Files that were written
ahead mean nothing until a manifest names them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from laminar.bridge import (
    AdvanceWatermark,
    BridgeConsumer,
    BridgeCounters,
    PipelineBridge,
    ProcessBatch,
    SpillLog,
    SpillToDisk,
)
from laminar.bridge.spill import SPILL, SpillFile, Step
from laminar.connectors.source import Source
from laminar.errors import Backpressure
from laminar.runtime.definitions import TableDefinition
from laminar.runtime.ingest import Ingest, Taken
from laminar.runtime.inlet_options import InletOptions
from laminar.store import Range, discard
from laminar.store.names import folder_name


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows that Spark has written already: they take no memory here."""

    taken: Taken

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return 0 if self.taken.segment is None else self.taken.segment.rows

    @property
    def nbytes(self) -> int:
        """None of them is in memory."""
        return 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A range whose rows are in segments, for the next epoch."""

    range: Range
    taken: Taken
    batches: tuple[ProcessBatch, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """Where an inlet is: what all inlets of an engine share."""

    ingest: Ingest
    root: Path
    clock: Callable[[], float]
    """Seconds."""
    wake: Callable[[], None]
    """Called when there is something for an epoch."""
    is_gated: Callable[[str], bool]
    """Whether a source is too far ahead of others to be read now."""
    is_running: Callable[[], bool]
    """Whether epochs follow each other by themselves, so that polling does, too."""


class SourceInlet:
    """Rows of one connector, from its polls to the epochs.

    Law: `cut` returns ranges that follow each other, each with exactly the rows that the source
    gives for it; only what `DropNewest` let go lies between them.

    The producer's side is under `_polling`, the consumer's under `_taking`: an epoch does not wait
    for a source that is slow to answer, unless it asks for all that is there now.
    """

    def __init__(
        self,
        definition: TableDefinition,
        source: Source,
        options: InletOptions,
        site: Site,
        position: Any,
        epoch: int,
    ) -> None:
        self.definition = definition
        self.source = source
        self.options = options
        self.error: Exception | None = None
        """What the last poll in the background failed with."""
        self._site = site
        self._polling = threading.RLock()
        self._taking = threading.RLock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"laminar-source-{definition.name}")
        self._future: Future[None] | None = None
        self._past = BridgeCounters()
        self._failures = 0
        self._is_ahead = False
        self._is_settling = False
        self._open(position, epoch)

    def _open(self, position: Any, epoch: int) -> None:
        spills = isinstance(self.options.strategy, SpillToDisk)
        folder = self._site.root / SPILL / folder_name(self.definition.name)
        spill = SpillLog(folder) if spills else None
        if spill is None and folder.is_dir():
            SpillLog(folder).clear()  # it spilled once: those rows are read from the source again
        self.bridge = PipelineBridge(
            self.definition.name,
            capacity_rows=self.options.buffer_rows,
            capacity_bytes=self.options.buffer_bytes,
            strategy=self.options.strategy,
            spill=spill,
            clock=self._site.clock,
        )
        self.bridge.go_on_from(position)
        self._consumer = BridgeConsumer(self.bridge, self.options.policy)
        self._position = position
        self.consumed = position
        """Where the last range ended that an epoch took."""
        self._way: deque[Step | SpillFile] = deque(spill.way_from(position) if spill else ())
        self._unsent: tuple[Any, Range, dict[str, int]] | None = None
        self._next_poll = 0.0
        self._prepared: Prepared | None = None
        self._later: ProcessBatch | None = None
        self._uncommitted: deque[Prepared] = deque()
        self._number = epoch + 1
        self._is_alone = False  # Spark numbers rows as it reads them: none may wait before them

    # Ring 1: the producer's side

    def begin(self, *, ahead: bool) -> None:
        """Start reading what is next, unless something is there or on its way.

        Args:
            ahead: of an epoch that is not asked for yet; it will look again if this finds nothing.
        """
        if self._future is None and not self._has_rows():
            self._is_ahead = ahead
            self._future = self._pool.submit(self._fill)

    def pump(self) -> None:
        """Keep polling in the background while there is room; called again and again."""
        if self._future is not None:
            if not self._future.done():
                return
            self._future = None
        if self._site.clock() >= self._next_poll and self._may_poll():
            self._future = self._pool.submit(self._keep_polling)

    def _fill(self) -> None:
        with self._polling:
            self._poll()
        self._form(flush=True)

    def _keep_polling(self) -> None:
        try:
            found = True
            while found and self._site.is_running() and not self._is_settling:
                with self._polling:
                    found = self._poll()
                if self._form(flush=False):
                    self._site.wake()
            self.error, self._failures = None, 0
            if self._may_poll():  # there was nothing, rather than no room
                self._next_poll = self._site.clock() + self.options.poll_interval_ms / 1000
        except Exception as error:
            self._failures += 1
            self.error = error
            self._next_poll = self._site.clock() + min(5.0, 0.1 * 2**self._failures)
        self._site.wake()

    def _may_poll(self) -> bool:
        """Whether there is room; a source that waits is told so, and resumes by itself."""
        if (
            self._site.is_gated(self.definition.name)
            or not self.bridge.has_capacity()
            or (self._is_alone and self._has_rows())
        ):
            self.bridge.pause()
            return False
        return True

    def _poll(self) -> bool:
        """Send the next range through the bridge; False if there is none, or no room."""
        if not self._may_poll():
            return False
        if self._unsent is not None:
            return self._send(*self._unsent)
        if self._way:
            return self._follow()
        end = self.source.latest_offset(self._position)
        if end is None:
            return False
        return self._read(Range(self.definition.name, self._position, end))

    def _follow(self) -> bool:
        """Go on along what was spilled before a restart."""
        step = self._way[0]
        if not isinstance(step, SpillFile):
            sent = self._read(Range(self.definition.name, step.start, step.end))
            if sent:
                self._way.popleft()
            return sent
        while self._way and isinstance(self._way[0], SpillFile):
            file = self._way.popleft()
            assert isinstance(file, SpillFile)
            self.bridge.adopt(file)
            self._position = file.step.end
        return True

    def _read(self, taken: Range) -> bool:
        ingest, now = self._site.ingest, self._site.ingest.now()
        found = ingest.load(taken, self.definition, self._number, now)
        was_alone, self._is_alone = not self._has_rows(), isinstance(found, Taken)
        if isinstance(found, Taken):
            if not was_alone:
                discard(self._site.root, () if found.segment is None else found.segment.files)
                return False
            return self._send(Stored(found), taken, dict(found.largest))
        marks = ingest.marks(self.definition, found, now)  # of all rows, wanted or not
        return self._send(ingest.kept(self.definition, found), taken, marks)

    def _send(self, rows: Any, taken: Range, marks: dict[str, int]) -> bool:
        high = max(marks.values(), default=None)
        try:
            self.bridge.send_batch(
                rows, event_time=high, start=taken.start, end=taken.end, note=marks
            )
        except Backpressure:
            self._unsent = (rows, taken, marks)
            return False
        self._unsent = None
        self._position = taken.end
        return True

    def say(self, watermark: int) -> None:
        """Send a watermark behind all rows that were read so far."""
        with self._polling:
            self.bridge.send_watermark(watermark)

    # The consumer's side

    def _has_rows(self) -> bool:
        return (
            self._prepared is not None
            or self._later is not None
            or self._consumer.deadline is not None
            or self.bridge.channel.waiting > 0
        )

    def cut(self, epoch: int, *, whole: bool, until: int | None = None) -> Range | None:
        """Return the range that an epoch may take; None if there is none.

        Args:
            epoch: the epoch to be.
            whole: all that is there now, whatever the policy says.
            until: stop at a watermark as high as this.
        """
        if not whole:
            self._form(flush=False)
            return None if self._prepared is None else self._prepared.range
        looked = self._wait()
        with self._polling:
            if not looked and not self._has_rows():
                self._poll()
            self.bridge.send_checkpoint(epoch)
        self._form(flush=True, whole=True, until=until)
        return None if self._prepared is None else self._prepared.range

    def _wait(self) -> bool:
        """Wait for a read in progress and raise its error; whether it has looked just now."""
        if self._site.is_running():
            return False  # it goes on by itself; what it has found so far is in the bridge
        future, self._future = self._future, None
        if future is None:
            return False
        future.result()
        return not self._is_ahead

    def _form(self, *, flush: bool, whole: bool = False, until: int | None = None) -> bool:
        """Write the next batch as a segment, ahead of the epoch that takes it."""
        with self._taking:
            while self._prepared is None or whole:
                if self._later is not None:
                    if not self._prepare(self._later):
                        break
                    self._later = None
                actions = self._consumer.drain(limit=1, flush=flush)
                if not actions:
                    break
                marks = [each.timestamp for each in actions if isinstance(each, AdvanceWatermark)]
                batch = next((each for each in actions if isinstance(each, ProcessBatch)), None)
                if batch is not None and not self._prepare(batch):
                    self._later = batch
                    break
                if until is not None and max(marks, default=until - 1) >= until:
                    break
            return self._prepared is not None

    def _prepare(self, batch: ProcessBatch) -> bool:
        """Add a batch to what is ready; False if something between them was dropped."""
        before = self._prepared
        if before is not None and before.range.end != batch.start:
            return False
        taken = self._written(batch, before)
        if before is None:
            span = Range(self.definition.name, batch.start, batch.end)
            self._prepared = Prepared(span, taken, (batch,))
            if taken.segment is not None:
                self._site.ingest.prepare(self.definition, taken.segment, self._number)
        else:
            span = replace(before.range, end=batch.end)
            self._prepared = Prepared(span, before.taken.joined(taken), (*before.batches, batch))
        return True

    def _written(self, batch: ProcessBatch, before: Prepared | None) -> Taken:
        ingest, now = self._site.ingest, self._site.ingest.now()
        rows = sum(each.num_rows for each in before.batches) if before is not None else 0
        stored = [part.rows.taken for part in batch.parts if isinstance(part.rows, Stored)]
        found = stored[0] if stored else Taken(None)
        tables = [part.rows for part in batch.parts if isinstance(part.rows, pa.Table)]
        if tables:
            marks: dict[str, int] = {}
            for part in batch.parts:
                for name, mark in (part.note or {}).items():
                    marks[name] = max(mark, marks.get(name, mark))
            table = pa.concat_tables(tables, promote_options="default")
            written = ingest.write(self.definition, self._number, table, marks, now, rows)
            found = written if not stored else found.joined(written)
        return found

    def take(self, taken: Range, epoch: int) -> Taken | None:
        """Hand over a range that `cut` has returned; None if it is another one."""
        with self._taking:
            ready = self._prepared
            if ready is None or ready.range != taken:
                return None
            self._prepared = None
            self.consumed = taken.end
            self._number = epoch + 1
            self._uncommitted.append(ready)
        segment = ready.taken.segment
        return replace(ready.taken, segment=segment and replace(segment, lo=epoch, hi=epoch))

    def committed(self, end: Any) -> None:
        """Forget what an epoch has taken, now that it is committed."""
        with self._taking:
            while self._uncommitted:
                done = self._uncommitted.popleft()
                for batch in done.batches:
                    self._consumer.release(batch)
                if done.range.end == end:
                    return

    # Both

    @property
    def deadline(self) -> float | None:
        """When the open batch will be old enough."""
        return self._consumer.deadline

    @property
    def latest(self) -> int | None:
        """The largest event time that was read."""
        return self.bridge.latest

    @property
    def counters(self) -> BridgeCounters:
        """What went through."""
        return self.bridge.counters.after(self._past)

    def restart(self, position: Any, epoch: int) -> None:
        """Go on from a committed position: an epoch has failed, or another one was restored."""
        self._settle()
        with self._polling, self._taking:
            self._past = replace(self.counters, waiting=0, waiting_bytes=0)
            self._drop_prepared()
            self._open(position, epoch)

    def _settle(self) -> None:
        future, self._future = self._future, None
        if future is not None:
            self._is_settling = True  # a source that drops would be polled for ever
            future.exception()  # waits; what went wrong is met again, or mended
            self._is_settling = False

    def _drop_prepared(self) -> None:
        """Remove files that no epoch will name."""
        if self._prepared is not None and self._prepared.taken.segment is not None:
            discard(self._site.root, self._prepared.taken.segment.files)

    def close(self) -> None:
        """End the thread; what was read ahead is read again another time."""
        self._settle()
        self._pool.shutdown(wait=True)
        self.bridge.close()
