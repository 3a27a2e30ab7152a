"""The way in for one connector: polled on a thread of its own, through a bridge, into segments.

Ring 1 polls a range, sends it through the bridge and, when the policy closes a batch, writes it as
a segment: all of that while epochs run. An epoch only takes what is ready.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from laminar.bridge import BridgeCounters, PipelineBridge, SpillLog, SpillToDisk
from laminar.bridge.spill import SPILL
from laminar.connectors.source import Source
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.ingest.batch_writer import BatchWriter
from laminar.runtime.ingest.poller import InletContext, Polling
from laminar.runtime.ingest.range_reader import ReadRange
from laminar.store import Range
from laminar.store.names import folder_name


class SourceInlet:
    """Rows of one connector, from its polls to the epochs.

    Law: `cut` returns ranges that follow each other, each with exactly the rows that the source
    gives for it; only what `DropNewest` let go lies between them.

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
        site: InletContext,
        position: Any,
        epoch: int,
    ) -> None:
        self.definition = definition
        self.source = source
        self.options = options
        self.error: Exception | None = None
        """What the last poll in the background failed with."""
        self._site = site
        self._asking = threading.Lock()
        self._sending = threading.Lock()
        self._taking = threading.Lock()
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
        self._forming = BatchWriter(
            self.definition,
            self._site.ingest,
            self.bridge,
            self.options.policy,
            epoch + 1,
            position,
        )
        self._polling = Polling(
            self.definition,
            self.source,
            self._site,
            self.bridge,
            self._forming,
            self._sending,
            position,
            () if spill is None else spill.way_from(position),
        )
        self._barriers = 0
        self._next_poll = 0.0

    # Ring 1

    def begin(self, *, ahead: bool) -> None:
        """Start reading what is next, unless something is there or on its way.

        Args:
            ahead: of an epoch that is not asked for yet; it will look again if this finds nothing.
        """
        if self._future is None and not self._forming.has_rows():
            self._is_ahead = ahead
            self._future = self._pool.submit(self._fill)

    def pump(self) -> None:
        """Keep polling in the background while there is room; called again and again."""
        if self._future is not None:
            if not self._future.done():
                return
            self._future = None
        if self._site.clock() >= self._next_poll and self._polling.may_poll():
            self._is_ahead = True  # of any epoch: one that is asked for later looks again
            self._future = self._pool.submit(self._keep_polling)

    def _fill(self) -> None:
        self._poll()
        with self._taking:
            self._forming.form(flush=True)

    def _poll(self) -> bool:
        """Ask the connector; whether it had something, and there was room for it."""
        with self._asking, self._site.inside(self.definition.name):
            return self._polling.poll()

    def _keep_polling(self) -> None:
        try:
            found = True
            while found and self._site.is_running() and not self._is_settling:
                found = self._poll()
                with self._taking:
                    is_ready = self._forming.form(flush=False)
                if is_ready:
                    self._site.wake()
            self.error, self._failures = None, 0
            if self._polling.may_poll():  # there was nothing, rather than no room
                self._next_poll = self._site.clock() + self.options.poll_interval_ms / 1000
        except Exception as error:  # of a connector; the loop tells it, and polling goes on later
            self._failures += 1
            self.error = error
            self._next_poll = self._site.clock() + min(5.0, 0.1 * 2**self._failures)
        self._site.wake()

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
                self._forming.form(flush=False)
                return self._forming.ready
        looked = self._wait()
        if not looked and not self._forming.has_rows():
            self._poll()
        with self._sending:
            self.bridge.send_checkpoint(epoch)
            self._barriers += 1
        with self._taking:
            self._forming.form_all(self._barriers, until)
            return self._forming.ready

    def _wait(self) -> bool:
        """Wait for a read in progress and raise its error; whether it has looked just now."""
        if self._site.is_running():
            return False  # it goes on by itself; what it has found so far is in the bridge
        future, self._future = self._future, None
        if future is None:
            return False
        future.result()
        return not self._is_ahead

    def say(self, watermark: int) -> None:
        """Send a watermark behind all rows that were read so far."""
        with self._asking, self._sending:
            self.bridge.send_watermark(watermark)

    def take(self, taken: Range, epoch: int) -> ReadRange | None:
        """Hand over a range that `cut` has returned; None if it is another one."""
        with self._taking:
            return self._forming.take(taken, epoch)

    def committed(self, end: Any) -> None:
        """Forget what an epoch has taken, now that it is committed."""
        with self._taking:
            self._forming.committed(end)

    # How it stands

    @property
    def consumed(self) -> Any:
        """Where the last range ended that an epoch took."""
        return self._forming.consumed

    @property
    def deadline(self) -> float | None:
        """When the open batch will be old enough."""
        return self._forming.deadline

    @property
    def latest(self) -> int | None:
        """The largest event time that was read."""
        return self.bridge.latest

    @property
    def counters(self) -> BridgeCounters:
        """What went through."""
        return self.bridge.counters.after(self._past)

    # Lifetime

    def restart(self, position: Any, epoch: int) -> None:
        """Go on from a committed position: an epoch has failed, or another one was restored."""
        self._settle()
        with self._asking, self._sending, self._taking:
            self._past = replace(self.counters, waiting=0, waiting_bytes=0)
            self._forming.discard(self._site.root)
            self._open(position, epoch)

    def _settle(self) -> None:
        future, self._future = self._future, None
        if future is not None:
            self._is_settling = True  # a source that drops would be polled for ever
            future.exception()  # waits; what went wrong is met again, or mended
            self._is_settling = False

    def close(self) -> None:
        """End the thread; what was read ahead is read again another time."""
        self._settle()
        self._pool.shutdown(wait=True)
        self.bridge.close()
