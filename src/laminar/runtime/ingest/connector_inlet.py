"""The way in for one connector: polled on a thread of its own, through a bridge, into segments.

Ring 1 polls a range, sends it through the bridge and, when the policy closes a batch, writes it as
a segment: all of that while epochs run. An epoch only takes what is ready.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from laminar.bridge import BridgeCounters, PipelineBridge, SpillLog, SpillToDisk
from laminar.bridge.messages import Step
from laminar.bridge.spill import SPILL, SpillFile
from laminar.connectors.source import Source
from laminar.errors import Backpressure, ConnectorHung
from laminar.model.row_counts import Skipped
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.ingest.arriving_rows import RowTimes
from laminar.runtime.ingest.batch_writer import BatchWriter
from laminar.runtime.ingest.connector_thread import (
    CLOSING_SECONDS,
    ConnectorThread,
    Left,
    in_background,
)
from laminar.runtime.ingest.continuity import checked_offset
from laminar.runtime.ingest.inlet import InletContext
from laminar.runtime.ingest.range_reader import RangeReader
from laminar.runtime.ingest.read_range import RangeNote, ReadRange, SegmentWriter, Stored
from laminar.store import Range
from laminar.store.names import folder_name

_T = TypeVar("_T")


class Poller:
    """The producer's side: reads one range after another, and sends each through the bridge.

    Law: every range is sent whole and once, in order. One that did not fit is kept and sent later,
    and is not read again.

    Args:
        source: what is read.
        thread: where the connector's code runs.
        context: what all inlets share.
        bridge: where ranges go.
        writer: the other side, which numbers what is read.
        sending: held while something goes into the bridge, never while the source is asked.
        position: where the last range ended.
        way: what an earlier process has spilled, and what it had in memory before.
    """

    def __init__(
        self,
        source: Source,
        thread: ConnectorThread,
        context: InletContext,
        bridge: PipelineBridge,
        writer: BatchWriter,
        sending: AbstractContextManager[object],
        position: Any,
        way: Iterable[Step | SpillFile],
    ) -> None:
        definition = writer.segments.definition
        self._name = definition.name
        self._source = source
        self._thread = thread
        # For the life of a bridge: whoever changes what is kept lets another one be opened.
        prefix = context.pruning.stage(definition)
        self.reader = RangeReader(source, writer.segments, context.workspace, prefix, self._call)
        self._is_over = False
        self._is_gated = context.is_gated
        self._bridge = bridge
        self._writer = writer
        self._sending = sending
        self._position = position
        self._way = deque(way)
        self._unsent: tuple[pa.Table | Stored, Range, RangeNote] | None = None
        self._dropped = 0  # rows that were let go since the last range that was sent
        self._is_alone = False  # Spark numbers rows as it reads them: none may wait before them

    def may_poll(self) -> bool:
        """Whether there is room; a source that waits is told so, and resumes by itself."""
        if (
            self._is_gated(self._name)
            or not self._bridge.has_capacity()
            or (self._is_alone and self._writer.has_rows())
        ):
            self._bridge.pause()
            return False
        return True

    def poll(self) -> bool:
        """Send the next range through the bridge; False if there is none, or no room."""
        if not self.may_poll():
            return False
        if self._unsent is not None:
            return self._send(*self._unsent)
        if self._way:
            return self._follow()
        ask = partial(self._source.latest_offset, self._position)
        end = checked_offset(self._name, self._position, self._call("latest_offset", ask))
        if end is None:
            return False
        return self._read(Range(self._name, self._position, end))

    def _follow(self) -> bool:
        """Go on along what was spilled before a restart."""
        step = self._way[0]
        if not isinstance(step, SpillFile):
            sent = self._read(Range(self._name, step.start, step.end))
            if sent:
                self._way.popleft()
            return sent
        while self._way and isinstance(file := self._way[0], SpillFile):
            self._way.popleft()
            with self._sending:
                if self._is_over:
                    raise Left(self._name)
                self._bridge.adopt(file)
            self._position = file.step.end
        return True

    def _read(self, taken: Range) -> bool:
        rows, note = self.reader.read(taken, self._writer.number)
        was_alone, self._is_alone = not self._writer.has_rows(), isinstance(rows, Stored)
        if isinstance(rows, Stored) and not was_alone:
            rows.discard(self._writer.segments.store.root)
            return False
        return self._send(rows, taken, note)

    def _call(self, what: str, work: Callable[[], _T], /) -> _T:
        found = self._thread.call(what, work)
        if self._is_over:
            raise Left(self._name)
        return found

    def end(self) -> None:
        """Send nothing from now on: another one takes its place. `sending` is held."""
        self._is_over = True

    @property
    def is_over(self) -> bool:
        """Whether another one has taken its place."""
        return self._is_over

    def _send(self, rows: pa.Table | Stored, taken: Range, note: RangeNote) -> bool:
        high = max(note.marks.values(), default=None)
        sent = replace(note, dropped=self._dropped).to_json()
        try:
            with self._sending:
                if self._is_over:
                    raise Left(self._name)
                is_taken = self._bridge.send_batch(
                    rows, event_time=high, start=taken.start, end=taken.end, note=sent
                )
        except Backpressure:
            self._unsent = (rows, taken, note)
            return False
        self._dropped = 0 if is_taken else self._dropped + note.read + note.refused
        self._unsent = None
        self._position = taken.end
        return True


class SourceInlet:
    """Rows of one connector, from its polls to the epochs.

    One thread at a time asks the connector, under `_asking`, which nobody takes but to ask it. What
    goes into the bridge is under `_sending`, what comes out of it (`BatchWriter`) under `_taking`:
    an epoch does not wait for a source that is slow to answer, unless it asks for all that is
    there now. Whoever needs several takes them in this order; the thread that polls never waits
    for an epoch.
    """

    def __init__(
        self,
        definition: TableDefinition,
        source: Source,
        options: InletOptions,
        context: InletContext,
        position: Any,
        epoch: int,
    ) -> None:
        self.definition = definition
        self.source = source
        self.options = options
        self.error: Exception | None = None
        self._context = context
        times = RowTimes.of(definition, source, context.settings)
        self._segments = SegmentWriter(definition, context.store, times)
        self._asking = threading.Lock()
        self._sending = threading.Lock()
        self._taking = threading.Lock()
        self.thread = context.thread(definition, source)
        self._future: Future[None] | None = None
        self._past = BridgeCounters()
        self._failures = 0
        self._is_ahead = False
        self._open(position, epoch)

    def _open(self, position: Any, epoch: int) -> None:
        options, context = self.options, self._context
        spill = self._spill()
        self.bridge = PipelineBridge(
            self.definition.name,
            capacity_rows=options.buffer_rows,
            capacity_bytes=options.buffer_bytes,
            strategy=options.strategy,
            spill=spill,
            clock=context.clock,
        )
        self.bridge.go_on_from(position)
        way = () if spill is None else spill.way_from(position)
        self._writer = BatchWriter(self._segments, self.bridge, options.policy, epoch + 1, position)
        self._poller = Poller(
            self.source,
            self.thread,
            context,
            self.bridge,
            self._writer,
            self._sending,
            position,
            way,
        )
        self._barriers = 0
        self._next_poll = 0.0

    def _spill(self) -> SpillLog | None:
        folder = self._context.store.root / SPILL / folder_name(self.definition.name)
        if isinstance(self.options.strategy, SpillToDisk):
            return SpillLog(folder)
        if folder.is_dir():
            SpillLog(folder).clear()  # it spilled once: those rows are read from the source again
        return None

    # Ring 1

    def begin(self, *, ahead: bool) -> None:
        """Start reading what is next, unless something is there or on its way.

        Args:
            ahead: of an epoch that is not asked for yet; it will look again if this finds nothing.
        """
        if self._future is None and not self._writer.has_rows():
            self._is_ahead = ahead
            self._future = self._submit(self._fill)

    def pump(self) -> None:
        """Keep polling in the background while there is room; called again and again."""
        if self._future is not None:
            if not self._future.done():
                return
            self._future = None
        if self._context.clock() >= self._next_poll and self._poller.may_poll():
            self._is_ahead = True  # of any epoch: one that is asked for later looks again
            self._future = self._submit(self._keep_polling)

    def _submit(self, work: Callable[[], None]) -> Future[None]:
        return in_background(f"laminar-source-{self.definition.name}", work)

    def _fill(self) -> None:
        poller = self._poller
        self._poll(poller)
        with self._taking:
            if not poller.is_over:
                self._writer.form(flush=True)

    def _poll(self, poller: Poller) -> bool:
        """Ask the connector; whether it had something, and there was room for it."""
        with self._asking, self._context.inside(self.definition.name):
            return not poller.is_over and poller.poll()

    def _keep_polling(self) -> None:
        poller = self._poller
        try:
            found = True
            while found and self._context.is_running() and not poller.is_over:
                found = self._poll(poller)
                with self._taking:
                    is_ready = not poller.is_over and self._writer.form(flush=False)
                if is_ready:
                    self._context.wake()
            self._mended()
            if poller.may_poll():  # there was nothing, rather than no room
                self._next_poll = self._context.clock() + self.options.poll_interval_ms / 1000
        except Left:
            return
        except Exception as error:  # of a connector; the loop tells it, and polling goes on later
            if poller.is_over:
                return
            self.failed(error)
            if isinstance(error, ConnectorHung):
                self._context.on_hung(self.definition.name, error)
        self._context.wake()

    # What epochs take

    def cut(self, epoch: int, *, whole: bool, until: int | None = None) -> Range | None:
        """Return the range that an epoch may take; None if there is none.

        Args:
            epoch: the epoch to be.
            whole: all that is there now, whatever the policy says.
            until: stop at a watermark as high as this.
        """
        if not whole:
            with self._taking:
                self._writer.form(flush=False)
                return self._writer.ready
        looked = self._wait()
        if not looked and not self._writer.has_rows():
            self._poll(self._poller)
        if not self._context.is_running():
            self._mended()
        with self._sending:
            self.bridge.send_checkpoint(epoch)
            self._barriers += 1
        with self._taking:
            self._writer.form_all(self._barriers, until)
            return self._writer.ready

    def _wait(self) -> bool:
        """Wait for a read in progress and raise its error; whether it has looked just now."""
        if self._context.is_running():
            return False  # it goes on by itself; what it has found so far is in the bridge
        future, self._future = self._future, None
        if future is None:
            return False
        if self._is_ahead:
            wait([future])  # each of its calls has a deadline
            return False  # also if it failed: that was a while ago, and it is asked now
        future.result()
        return True

    def say(self, watermark: int) -> None:
        """Send a watermark behind all rows that were read so far."""
        with self._asking, self._sending:
            self.bridge.send_watermark(watermark)

    def take(self, taken: Range, epoch: int, now_ms: int) -> ReadRange:
        """Hand over a range; one that `cut` has not returned is read from the source now."""
        with self._taking:
            done = self._writer.take(taken, epoch)
        if done is None:
            done = self._read_again(taken, epoch, now_ms)
            self.restart(taken.end, epoch)
        return done

    def _read_again(self, taken: Range, epoch: int, now_ms: int) -> ReadRange:
        with self._asking, self._context.inside(self.definition.name):
            rows, note = self._poller.reader.read(taken, epoch, now_ms)
        if isinstance(rows, Stored):
            return rows.taken.counted(note)
        return self._segments.write(epoch, rows, note.marks, now_ms=now_ms).counted(note)

    def skipped(self, taken: Range) -> Skipped | None:
        """Return what was let go right before a range that `cut` has returned."""
        with self._taking:
            return self._writer.skipped(taken)

    def committed(self, end: Any) -> None:
        """Forget what an epoch has taken, now that it is committed."""
        with self._taking:
            self._writer.committed(end)

    # How it stands

    @property
    def consumed(self) -> Any:
        """Where the last range ended that an epoch took."""
        return self._writer.consumed

    def failed(self, error: Exception) -> None:
        """Note that it could not be read; the loop tries again, later each time."""
        self._failures += 1
        self.error = error
        pause = min(5.0, 0.1 * 2 ** min(self._failures, 10))
        self._next_poll = self._context.clock() + pause

    def _mended(self) -> None:
        self.error, self._failures = None, 0

    def hurry(self) -> None:
        """Let the loop ask it at once."""
        self._next_poll = 0.0

    @property
    def failures(self) -> int:
        """How often it could not be read in a row."""
        return self._failures

    @property
    def next_poll(self) -> float:
        """When the loop asks it again."""
        return self._next_poll

    @property
    def deadline(self) -> float | None:
        """When the open batch will be old enough."""
        return self._writer.deadline

    @property
    def counters(self) -> BridgeCounters:
        """What went through."""
        return self.bridge.counters.after(self._past)

    # Lifetime

    def restart(self, position: Any, epoch: int) -> None:
        """Go on from a committed position: an epoch has failed, or another one was restored.

        A poll that is on its way is not waited for: what it brings, nobody takes.
        """
        with self._sending, self._taking:
            self._poller.end()
            self._future = None
            self._past = replace(self.counters, waiting=0, waiting_bytes=0)
            self._writer.discard()
            self._open(position, epoch)

    def close(self) -> None:
        """End polling; what was read ahead is read again another time.

        A poll that is on its way gets a moment to end, so that it leaves nothing half done.
        """
        with self._sending:
            self._poller.end()
            self.bridge.close()
        future, self._future = self._future, None
        if future is not None and not self.thread.is_out:
            wait([future], CLOSING_SECONDS)
