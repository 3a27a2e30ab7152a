"""All ways in: one bridge per source, and what an epoch takes from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from laminar.bridge import BridgeCounters
from laminar.checkpoint.in_flight import Delivered
from laminar.connectors import Source
from laminar.errors import (
    Backpressure,
    ConnectorError,
    ConnectorHung,
    LaminarError,
    SourceError,
    SourceReadFailed,
    TableRedefined,
    UnknownRelation,
)
from laminar.model.row_counts import RowCounts, Skipped
from laminar.model.state import EngineState
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.settings import wall_clock
from laminar.runtime.catalog.source_options import may_drop, parse, refuse_in_part
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.event_time.watermarks import SourceDrift
from laminar.runtime.ingest.acknowledgements import Acknowledgements
from laminar.runtime.ingest.connector_inlet import SourceInlet
from laminar.runtime.ingest.connector_thread import ConnectorThreads, Left
from laminar.runtime.ingest.inlet import Inlet, InletContext, Positions
from laminar.runtime.ingest.open_inlets import OpenInlets
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.ingest.pushed_inlet import PushedInlet
from laminar.runtime.ingest.read_range import ReadRange
from laminar.runtime.ingest.source_health import AwaySources, HealthReport, reason_of
from laminar.runtime.spark.error_translation import START_FAILS
from laminar.runtime.spark.workspace import Workspace
from laminar.store import Range, SegmentStore
from laminar.store.source_notes import SourceNotes

if TYPE_CHECKING:
    import pyarrow as pa


_LOOK_AGAIN = 0.1  # seconds after which a wait ends by itself: clocks may have moved


class ConnectorDagBridge:
    """The bridges of an engine.

    An epoch takes what each of them has ready: one range per source. A source that has nothing, or
    is slow to answer, does not hold the others back, and none can take more than its batch while
    others wait.

    Args:
        defined: the tables, and their connectors.
        ledger: what was committed last, and rows that wait for an epoch.
        time: what was said about event time.
        pruning: what is kept of each source.
        store: writes segments.
        workspace: epoch -> where Spark reads for it.
        clock: the wall clock, in milliseconds.
    """

    def __init__(
        self,
        defined: Defined,
        ledger: Positions,
        time: EventTime,
        pruning: SourcePruning,
        store: SegmentStore,
        workspace: Callable[[int], Workspace],
        clock: Callable[[], int],
    ) -> None:
        self._defined = defined
        self._ledger = ledger
        self._time = time
        self._pruning = pruning
        self._changed = threading.Condition(threading.Lock())
        self._signals = 0
        self._acknowledgements = Acknowledgements(
            lambda: self._defined.sources, lambda: self._ledger.manifest.offsets
        )
        self._running = False
        self._drift = SourceDrift()
        self._counting: Mapping[str, RowCounts] = {}
        self.on_running: Callable[[bool], object] = lambda _runs: None
        """Told when a loop in the background starts or stops."""
        self.is_sink: Callable[[], bool] = lambda: False
        """Tells whether the caller is a sink that is being called."""
        self.clock = monotonic if clock is wall_clock else lambda: clock() / 1000
        self.threads = ConnectorThreads(lambda: defined.call_timeout_ms)
        """Where the code of connectors runs."""
        self.away = AwaySources(self.clock)
        """Sources whose connector cannot be built, or does not answer."""
        context = InletContext(
            store,
            workspace,
            pruning,
            defined.time_settings,
            self.clock,
            self.wake,
            self._is_gated,
            lambda: self.running,
            lambda name: self._ledger.turn.inside(name),
            self.threads.of,
            self.away.note,
        )
        self.ways = OpenInlets(defined, ledger, context, self.away.error)
        """The bridges that are open."""
        notes = SourceNotes(store.root)
        self.health = HealthReport(defined, ledger, self.ways, self.away, notes, self.clock, clock)
        """How the sources are doing."""
        self._unread: dict[str, Exception] = {}  # sources that the last cut could not read

    @property
    def running(self) -> bool:
        """Whether a loop in the background steps, so that sources are polled all the time."""
        return self._running

    @running.setter
    def running(self, runs: bool) -> None:
        self._running = runs
        self.on_running(runs)

    @property
    def is_awaited(self) -> bool:
        """Whether epochs may be waiting for the caller, who therefore must not wait for one."""
        in_loop = threading.current_thread().name == LOOP
        return in_loop or self._ledger.turn.is_inside or self.is_sink()

    def _is_gated(self, name: str) -> bool:
        """Whether a source is too far ahead of its alignment group, by what was read of each."""
        if not self._drift.groups:
            return False
        read = {key: each.bridge.latest for key, each in self.ways.all().items()}
        known = {key: time for key, time in read.items() if time is not None}
        return self._drift.is_ahead(name, known)

    # Connectors

    def attach_source(self, name: str, source: Source) -> None:
        """Let the rows of a table come from a connector; whoever calls has the writer's turn."""
        definition = self._defined.tables().get(name)
        if definition is not None:  # at opening it was looked at before
            refuse_in_part(definition, source)
        self._defined.sources[name] = source
        self.away.forget(name)

    def heed_timeouts(self) -> None:
        """Let calls into connectors take as long as the settings say now."""
        self.threads.heed(self._defined.tables(), self._defined.sources)

    def commit_offsets(self, *, is_waiting: bool = True) -> None:
        """Let sources that want to know it hear how far they were read for good.

        Whoever calls has no turn, and may wait for them a moment.
        """
        self._acknowledgements.tell(is_waiting=is_waiting)

    # What epochs take

    def cut(self, *, whole: bool) -> list[Range]:
        """Return what there is to be taken; empty if all tables are idle.

        A source that cannot be read keeps the others from nothing: `require_read` tells of it.

        Args:
            whole: all that is there now; otherwise what the policies have closed.
        """
        self._unread = {}
        epoch = self._ledger.manifest.epoch + 1
        said = self._time.watermarks.unheard
        self._drift = self._time.watermarks.drift()
        inlets = [self.ways.of(name) for name in self._read()]
        if whole and not self.running:
            for each in inlets:
                each.begin(ahead=False)  # side by side, each on its own thread
        found = []
        for each in inlets:
            mark = said.get(each.definition.name)
            # A watermark that was said counts from this epoch on: the rows before it must, too.
            taken = self._cut(each, epoch, whole=whole or mark is not None, until=mark)
            if taken is not None:
                found.append(taken)
        return found

    def _cut(self, inlet: Inlet, epoch: int, *, whole: bool, until: int | None) -> Range | None:
        """Return what an epoch may take of a source; one that hangs is away, others go on."""
        name = inlet.definition.name
        try:
            return inlet.cut(epoch, whole=whole, until=until)
        except Left:
            return None
        except ConnectorHung as error:
            self.away.note(name, error)
            return None
        except Exception as error:
            if isinstance(inlet, SourceInlet):
                inlet.failed(error)
            # Rows before a watermark that was said must not come behind it, in a later epoch.
            if not whole or until is not None or not _is_of_source(error):
                raise
            self._unread[name] = error
            return None

    def require_read(self, report: object = None) -> None:
        """Raise what a source failed with when the last epoch was cut; the others were taken.

        Args:
            report: that epoch, if it was committed.
        """
        failed, self._unread = self._unread, {}
        for name, error in failed.items():
            found = error
            if not isinstance(found, SourceError):
                found = SourceReadFailed(name, reason_of(error))
                found.__cause__ = error
            found.report = report
            others = ", ".join(each for each in failed if each != name)
            if others:
                found.hint = f"failed too: {others}"
            raise found

    def _read(self) -> list[str]:
        """Return the tables to read; one that keeps what is used waits until somebody uses it."""
        unread = self._pruning.is_unread
        return [
            name for name in self._defined.tables() if not unread(name) and name not in self.away
        ]

    def skipped(self, taken: Iterable[Range]) -> dict[str, Skipped]:
        """Return source -> what it let go right before the range that an epoch is to take."""
        known = {each.table: self.ways.get(each.table) for each in taken}
        found = {
            each.table: inlet.skipped(each)
            for each in taken
            if (inlet := known[each.table]) is not None
        }
        return {name: each for name, each in found.items() if each is not None}

    def origins(self) -> dict[str, int]:
        """Return where tables begin whose rows are pushed: before the first, not nowhere."""
        return {name: 0 for name, each in self._defined.tables().items() if each.connector is None}

    def dropping(self) -> frozenset[str]:
        """Return the sources that may let rows go."""
        return frozenset(
            name
            for name, each in self._defined.tables().items()
            if may_drop(parse(each.options, pushed=each.connector is None).strategy)
        )

    def take(self, taken: Range, epoch: int, now_ms: int) -> ReadRange:
        """Hand over a range; one that no bridge has ready, as in a replay, is read now."""
        waits = self._ledger.in_flight.take(taken, epoch)
        if waits is None:
            try:
                return self.ways.of(taken.table).take(taken, epoch, now_ms)
            except ConnectorHung as error:
                self.away.note(taken.table, error)
                raise
        # A checkpoint kept its rows: their source may not have them any more.
        if taken.table not in self.away:
            self.ways.of(taken.table).restart(taken.end, epoch)
        counts = waits.counts or _counted(waits)
        return ReadRange(waits.segment, waits.ahead, waits.largest, waits.rows, counts)

    def ahead(self) -> None:
        """Read what comes next while an epoch runs."""
        if not self.running:
            for name in self._read():
                inlet = self.ways.get(name)
                if inlet is not None:
                    inlet.begin(ahead=True)

    def committed(self, ranges: Iterable[Range]) -> None:
        """Let go of what an epoch has taken, now that it is committed."""
        for each in ranges:
            inlet = self.ways.get(each.table)
            if inlet is not None:
                inlet.committed(each.end)
        self.wake()

    def back(self) -> None:
        """Go back to the committed positions, after an epoch that failed.

        What it did not take from stays as it is, with all that was read ahead.
        """
        offsets = self._ledger.manifest.offsets
        inlets = self.ways.all().items()
        self.again([name for name, each in inlets if each.consumed != offsets.get(name)])

    def again(self, names: Iterable[str]) -> None:
        """Let some sources be read again from their committed positions."""
        manifest = self._ledger.manifest
        for name in names:
            inlet = self.ways.get(name)
            if inlet is not None:
                inlet.restart(manifest.offsets.get(name), manifest.epoch)

    # What users do

    def push(self, table: TableDefinition, data: pa.Table) -> None:
        """Keep rows that a user pushed, and let them in.

        Args:
            table: as it was when the rows were made for it.
            data: with weights.

        Raises:
            TableRedefined: it is another one by now, for which they will not do.
        """
        try:
            self._push(table, data)
        except UnknownRelation:
            # A restore may be putting the definitions back: what is there once it is over counts.
            with self._ledger.turn("a push"):
                pass
            self._push(table, data)

    def _push(self, table: TableDefinition, data: pa.Table) -> None:
        with self._ledger.pending.pushing(self._ledger.turn.patience):
            while not self._pushed(table).push(data):
                pass  # it is opened anew meanwhile if its options are changed

    def _pushed(self, table: TableDefinition) -> PushedInlet:
        inlet = self.ways.of(table.name)
        if isinstance(inlet, PushedInlet) and inlet.definition.takes_rows_of(table):
            return inlet
        raise TableRedefined(table.name)

    def admit(self, table: str, rows: int) -> bool:
        """Whether rows may be pushed now; False if they are dropped.

        While a loop runs in the background, wait for it to make room, as long as for a writer.
        """
        until = monotonic() + self._ledger.turn.patience
        while isinstance(inlet := self.ways.of(table), PushedInlet):
            seen = self._signals
            try:
                return inlet.admit(rows)
            except Backpressure:
                if self.is_awaited or not self.running or monotonic() >= until:
                    raise
            self.wait(seen, _LOOK_AGAIN)
        return True

    def say(self, table: str, watermark: int) -> None:
        """Send a watermark behind the rows of a table; one that is away has none on their way."""
        if table not in self.away:
            self.ways.of(table).say(watermark)

    # The loop in the background

    def pump(self) -> None:
        """Let all sources be polled that have room."""
        with self._ledger.turn("polling"):  # nobody goes back to another epoch meanwhile
            for name in self._read():
                self.ways.of(name).pump()

    @property
    def signals(self) -> int:
        """A number that differs once something has happened."""
        return self._signals

    def wake(self) -> None:
        """Say that something has happened."""
        with self._changed:
            self._signals += 1
            self._changed.notify_all()

    def has_news(self, seen: int) -> bool:
        """Whether something has happened since `seen`, or a batch is old enough to be closed."""
        due = [each.deadline for each in self.ways.all().values()]
        now = self.clock()
        return self._signals != seen or any(each is not None and each <= now for each in due)

    def wait(self, seen: int, at_most: float = _LOOK_AGAIN) -> None:
        """Wait until something has happened since `seen`, or a batch is old enough."""
        due = [each.deadline for each in self.ways.all().values()]
        now = self.clock()
        left = min((each - now for each in due if each is not None), default=at_most)
        with self._changed:
            if self._signals == seen:
                self._changed.wait(max(0.001, min(left, at_most)))

    def errors(self) -> dict[str, Exception]:
        """Return source -> what its last poll in the background failed with."""
        found = {name: each.error for name, each in self.ways.all().items()}
        return {name: error for name, error in found.items() if error is not None}

    def ask_at_once(self, name: str) -> None:
        """Let the loop poll a source at once that it would have waited for."""
        inlet = self.ways.get(name)
        if isinstance(inlet, SourceInlet):
            inlet.hurry()
            self.wake()

    # What is counted

    @contextmanager
    def counting(self, counts: Mapping[str, RowCounts]) -> Iterator[None]:
        """Let a commit inside say what became of the rows that its epoch took."""
        self._counting = counts
        try:
            yield
        finally:
            self._counting = {}

    def saved(self, state: EngineState) -> EngineState:
        """Return what a manifest says with what became of all rows so far."""
        so_far, now = self._ledger.manifest.state.counts, self._counting
        found = {
            name: so_far.get(name, RowCounts()) + now.get(name, RowCounts())
            for name in self._defined.tables()
            if name in so_far or name in now
        }
        return replace(state, counts=found)

    def counters(self) -> dict[str, BridgeCounters]:
        """Return what went through each bridge."""
        return {name: each.counters for name, each in self.ways.all().items()}


def _is_of_source(error: Exception) -> bool:
    """Whether an error is about one source alone: not about the disk, or Spark."""
    if isinstance(error, LaminarError):
        return isinstance(error, SourceError | ConnectorError)
    return not isinstance(error, START_FAILS)


def _counted(waits: Delivered) -> RowCounts:
    """Return what became of rows that a version has kept which did not count them."""
    late = 0 if waits.ahead is None else waits.ahead.num_rows
    return RowCounts(waits.rows + late, waits.rows, late=late)


LOOP = "laminar-loop"
"""The name of the thread that steps in the background."""
