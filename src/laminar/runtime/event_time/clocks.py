"""Time of one engine: where watermarks and clocks stand, and what an epoch does because of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from laminar.dag.watermark import WatermarkAlignmentGroup
from laminar.delta.program import Aged, Emitted, Periodic, Program
from laminar.model.state import Clocks, EngineState
from laminar.model.trace import Manifest, Trace
from laminar.model.trace_name import view_of
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.catalog.source_options import InletOptions, parse
from laminar.runtime.event_time.due import (
    aging_due,
    cutoffs,
    is_due,
    periodic_due,
    thresholds,
    turns,
    without_final,
)
from laminar.runtime.event_time.late_batch import Cutoff, LateBatch, TimedResults
from laminar.runtime.event_time.watermarks import Dependencies, EpochTime, Watermarks


@dataclass(frozen=True, slots=True)
class WatermarkRow:
    """How far event time has come at one relation."""

    relation: str
    is_source: bool
    event_time: str | None  # the column, of a source
    watermark_us: int  # microseconds from 1970
    is_idle: bool


class EventTime:
    """Decides by time; nothing here runs a statement.

    An epoch `begin`s, asks what is `in_motion`, lets go of state with `after`, and makes the result
    true by committing within `kept`.
    """

    def __init__(self, catalog: Callable[[], Catalog], settings: TimeSettings) -> None:
        self._defined = catalog
        self._settings = settings
        self.reset()

    def reset(self) -> None:
        """Know of no relation and no time yet."""
        graph = Dependencies(lambda: self._defined().registry)
        self.watermarks = Watermarks(graph, self._settings.idle_timeout_ms)
        self.clocks = Clocks()

    def configure(self, tables: Mapping[str, TableDefinition]) -> None:
        """Follow what the settings and the options of the sources say about silence and drift."""
        options = {
            name: parse(each.options, pushed=each.connector is None)
            for name, each in tables.items()
            if each.event_time is not None
        }
        own = {name: each.idle_timeout_ms for name, each in options.items()}
        idle = {name: given for name, given in own.items() if given is not None}
        self.watermarks.configure(self._settings.idle_timeout_ms, idle, alignment(options))

    def restore(self, manifest: Manifest) -> None:
        """Go on with the watermarks and clocks that a manifest holds."""
        state = manifest.state
        self.watermarks.restore(
            manifest.watermarks, state.said, state.parts, self._settings.clock(), state.cuts
        )
        self.clocks = state.clocks

    def saved(self, state: EngineState) -> EngineState:
        """Return what a manifest has to carry, besides watermarks."""
        marks = self.watermarks
        return replace(
            state,
            said=dict(marks.said),
            parts=dict(marks.parts),
            clocks=self.clocks,
            cuts=marks.cuts,
        )

    @contextmanager
    def forgetting(self, names: Collection[str]) -> Iterator[None]:
        """Forget relations that are dropped, if the commit inside succeeds."""
        before = self.clocks
        self.clocks = Clocks(
            **{
                part: {key: each for key, each in values.items() if view_of(key) not in names}
                for part, values in asdict(before).items()
            }
        )
        with self.watermarks.forgetting(names):
            try:
                yield
            except BaseException:
                self.clocks = before
                raise

    def is_due(self, traces: Mapping[str, Trace], held: Collection[str]) -> bool:
        """Whether time alone asks for an epoch."""
        now = self._settings.clock()
        return self.watermarks.is_pending(now) or bool(self._by_clock(traces, now) - set(held))

    def _by_clock(self, traces: Mapping[str, Trace], now_ms: int) -> frozenset[str]:
        relations = self._defined().relations
        if not relations.is_timed:
            return frozenset()
        shown = periodic_due(relations, traces, self.clocks.emitted_at, now_ms)
        return shown | aging_due(relations, traces, self.clocks.aged_to, now_ms)

    def begin(self, largest: Mapping[str, Mapping[str, int]], now: int) -> EpochTime:
        """Move the watermarks by what was read: table -> part -> largest event time."""
        relations = self._defined().relations
        due = turns(relations, self.clocks.emitted_at, now) if relations.is_timed else frozenset()
        return replace(
            self.watermarks.move(largest, now),
            due=due,
            aged_to=self.clocks.aged_to,
            aging_rows=self._settings.aging_rows,
        )

    def in_motion(
        self, epoch_time: EpochTime, traces: Mapping[str, Trace], *, is_behind: bool = False
    ) -> frozenset[str]:
        """Views that time alone may change.

        Args:
            epoch_time: the epoch's time.
            traces: what is stored.
            is_behind: whether epochs are under way of which nothing is stored yet: then any
                window may be there that closes.
        """
        relations = self._defined().relations
        if not relations.is_timed:
            return frozenset()
        closing = {
            each.horizon.view
            for each in relations.by_name.values()
            if isinstance(each, Emitted)
            and (
                thresholds(each, epoch_time).moved
                if is_behind
                else is_due(each, relations, epoch_time, traces)
            )
        }
        return frozenset(closing) | self._by_clock(traces, epoch_time.now_ms)

    def first(self, program: Program, at: int | None = None) -> EpochTime:
        """Return a view's first moment, and set its clocks by the present.

        Args:
            program: the view.
            at: an older epoch, that some other view stands at; by default it is the newest.
        """
        now = self._settings.clock()
        names = [(each.shape.name, type(each)) for each in program.relations]
        emitted = {name: now for name, kind in names if kind is Periodic}
        aged = {name: now * 1000 for name, kind in names if kind is Aged}
        self.clocks = replace(
            self.clocks,
            emitted_at={**self.clocks.emitted_at, **emitted},
            aged_to={**self.clocks.aged_to, **aged},
        )
        if at is None:
            return self.watermarks.now(now)
        return EpochTime({}, self.watermarks.marks_at(at), now)

    def after(
        self,
        epoch_time: EpochTime,
        done: Collection[TimedResults],
        late: list[LateBatch],
        traces: dict[str, Trace],
        behind: Mapping[str, int],
        *,
        lets_go: bool = True,
    ) -> Clocks:
        """Drop state that can no longer change from the traces; return the clocks to keep.

        What is final is of no use, and does no harm: it may be dropped by a later epoch.

        Args:
            epoch_time: the epoch's time.
            done: what views showed.
            late: rows that were late.
            traces: what is stored, which becomes less.
            behind: views that stay at older epochs, whose state may still be needed.
            lets_go: whether to drop it now; not while other epochs stand on it.
        """
        counts = dict(self.clocks.late)
        for each in late:
            counts[each.relation] = counts.get(each.relation, 0) + each.count
        emitted, aged = dict(self.clocks.emitted_at), dict(self.clocks.aged_to)
        for part in done:
            emitted |= dict.fromkeys(part.shown, epoch_time.now_ms)
            aged |= part.aged_to
        clocks = Clocks(emitted, aged, counts)
        marks = self.watermarks.marks_of(epoch_time.after, behind)
        for name, (path, bound) in self._useless(marks, clocks).items():
            if lets_go and name in traces:
                traces[name] = without_final(traces[name], path, bound)
        for name in (name for part in done for name in part.emptied):
            traces[name] = Trace(traces[name].schema)
        return clocks

    @contextmanager
    def kept(
        self,
        clocks: Clocks,
        epoch: int,
        behind: Mapping[str, int],
        epoch_time: EpochTime | None = None,
    ) -> Iterator[None]:
        """Make an epoch's time true, if the commit inside succeeds; see `Watermarks.kept`."""
        before, self.clocks = self.clocks, clocks
        with self.watermarks.kept(epoch, behind, epoch_time):
            try:
                yield
            except BaseException:
                self.clocks = before
                raise

    def rows(self) -> list[WatermarkRow]:
        """Return where event time stands at every relation that has one."""
        found = []
        for name, mark in self.watermarks.current.items():
            column = self.watermarks.event_time(name)
            idle = self.watermarks.is_idle(name)
            found.append(WatermarkRow(name, column is not None, column, mark, idle))
        return found

    def useless(self) -> dict[str, Cutoff]:
        """Return trace -> rows that can no longer change, nor be shown."""
        return self._useless(self.watermarks.current, self.clocks)

    def _useless(self, marks: Mapping[str, int], clocks: Clocks) -> dict[str, Cutoff]:
        relations = self._defined().relations
        return cutoffs(relations, marks, clocks.aged_to) if relations.is_timed else {}


def alignment(options: Mapping[str, InletOptions]) -> list[WatermarkAlignmentGroup]:
    """Return the groups that sources say they are in; the tightest bound of a group counts."""
    members: dict[str, list[str]] = {}
    for name, each in options.items():
        if each.alignment_group is not None:
            members.setdefault(each.alignment_group, []).append(name)
    return [
        WatermarkAlignmentGroup(group, tuple(names), min(options[n].max_drift_us for n in names))
        for group, names in members.items()
    ]
