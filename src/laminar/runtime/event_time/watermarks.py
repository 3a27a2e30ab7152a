"""How far event time has come: at the tables by their rows, at the views by their inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from laminar.dag.watermark import DagWatermarkTracker, WatermarkAlignmentGroup
from laminar.errors import NoWatermark
from laminar.model.event_time import END_OF_TIME
from laminar.mv import MvRegistry
from laminar.mv.watermark import DependencyGraph
from laminar.runtime.catalog.definitions import TableDefinition


@dataclass(frozen=True, slots=True)
class EpochTime:
    """An epoch's time: watermarks at its beginning and at its end, and the wall clock."""

    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    now_ms: int = 0
    due: frozenset[str] = frozenset()
    """Views whose turn it is by the wall clock."""
    aged_to: Mapping[str, int] = field(default_factory=dict)
    """Relations whose rows come and go with the clock -> the time that they are at."""
    aging_rows: int = 100_000
    """How many rows of a relation may come or go because time has passed."""


@dataclass(frozen=True, slots=True)
class SourceDrift:
    """How far sources have come at one moment, for whoever reads them on other threads."""

    groups: tuple[WatermarkAlignmentGroup, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    delays: Mapping[str, int] = field(default_factory=dict)

    def is_ahead(self, name: str, read: Mapping[str, int]) -> bool:
        """Whether a source is too far ahead of its group to be read now.

        Args:
            name: the source.
            read: source -> the largest event time that was read, if no epoch took it yet.
        """
        marks = dict(self.marks)
        for each in marks:
            if each in read:
                marks[each] = max(marks[each], read[each] - self.delays.get(each, 0))
        return any(name in group.ahead(marks) for group in self.groups if name in group.members)


class Dependencies:
    """Who reads whom by the definitions of the moment, which a change may replace as a whole."""

    def __init__(self, registry: Callable[[], MvRegistry]) -> None:
        self._registry = registry

    @property
    def version(self) -> int:
        """A number that differs whenever the dependencies do."""
        registry = self._registry()
        return hash((id(registry), registry.version))

    def dependency_map(self) -> Mapping[str, tuple[str, ...]]:
        """Return what each name reads, every name after those it reads."""
        return self._registry().dependency_map()


@dataclass(frozen=True, slots=True)
class Moved:
    """How an epoch that has begun leaves event time; its commit makes that true."""

    after: Mapping[str, int]
    parts: Mapping[str, dict[str, int]]
    said: Mapping[str, int]


class Watermarks:
    """The watermarks of all relations; they move with the epochs, and never back.

    Between epochs `advance` notes what a user says. An epoch takes that and what it read with
    `move`; its commit makes the result true, within `kept`. If it fails, all goes `back`. Several
    may have moved before the first of them commits: each begins where the one before ends.
    """

    def __init__(self, graph: DependencyGraph, idle_timeout_ms: int | None = None) -> None:
        self._tables: dict[str, TableDefinition] = {}
        self._graph = graph
        self._tracker = DagWatermarkTracker(graph, idle_timeout_ms=idle_timeout_ms)
        self._kept: dict[str, int] = {}
        self._now_ms = 0  # the wall clock, as it was told last
        self.said: dict[str, int] = {}
        self.parts: dict[str, dict[str, int]] = {}
        self._moved: dict[str, dict[str, int]] = {}  # as epochs that are not committed leave them
        self._begun: list[Moved] = []  # those epochs
        self._committing: Moved | None = None
        self.cuts: dict[int, dict[str, int]] = {}
        """Epoch that a view stands at, or the newest -> the watermark of every relation then."""

    def configure(
        self,
        idle_ms: int | None,
        own_idle_ms: Mapping[str, int],
        groups: Iterable[WatermarkAlignmentGroup],
    ) -> None:
        """Set how long silent sources are waited for, and how far sources may drift apart."""
        self._tracker.set_idle_timeouts(idle_ms, own_idle_ms)
        self._tracker.set_alignment_groups(groups)

    def drift(self) -> SourceDrift:
        """Return how far apart the sources are that may not drift too far."""
        groups = self._tracker.alignment_groups()
        awake = self._tracker.awake() if groups else {}
        delays = {name: each.delay_us for name, each in self._tables.items()} if groups else {}
        return SourceDrift(groups, awake, delays)

    def add(self, definition: TableDefinition) -> None:
        """Follow a table; one without event time holds nobody back."""
        self._tables[definition.name] = definition
        if definition.event_time is None:
            self._tracker.mark_idle(definition.name)

    @contextmanager
    def forgetting(self, names: Collection[str]) -> Iterator[None]:
        """Stop following tables and views, if the commit inside succeeds; otherwise go `back`."""
        before = self._tables, self.said, self.parts, self._kept
        self._tables = {key: each for key, each in self._tables.items() if key not in names}
        self.said = {key: each for key, each in self.said.items() if key not in names}
        self.parts = {key: each for key, each in self.parts.items() if key not in names}
        self._kept = {key: each for key, each in self._kept.items() if key not in names}
        try:
            yield
        except BaseException:
            self._tables, self.said, self.parts, self._kept = before
            raise

    def restore(
        self,
        watermarks: Mapping[str, int],
        said: Mapping[str, int],
        parts: Mapping[str, Mapping[str, int]],
        now_ms: int,
        cuts: Mapping[int, Mapping[str, int]] | None = None,
    ) -> None:
        """Go on from what a manifest says; no part has been silent yet."""
        self._kept = dict(watermarks)
        self.said = dict(said)
        self.parts = {name: dict(each) for name, each in parts.items()}
        self.cuts = {epoch: dict(marks) for epoch, marks in (cuts or {}).items()}
        self._now_ms = now_ms
        self.back()

    def back(self) -> None:
        """Return to the last committed epoch; the silence of every part is counted anew."""
        self._moved, self._begun, now_ms = {}, [], self._now_ms
        self._tracker.restore(self._kept)
        for name, known in self.parts.items():
            for part in known:
                self._tracker.add_partition(name, part, now_ms)
            for part, mark in known.items():
                self._tracker.advance_partition_watermark(name, part, mark, now_ms)
        for name, definition in self._tables.items():
            if definition.event_time is None:
                self._tracker.mark_idle(name)

    def advance(self, name: str, watermark: int) -> None:
        """Note a punctuation; it takes effect with the next epoch."""
        if self._event_time(name) is None:
            raise NoWatermark(name)
        self.said[name] = max(watermark, self.said.get(name, watermark))

    @property
    def unheard(self) -> Mapping[str, int]:
        """What was said and no epoch that has begun has taken yet."""
        return _since(self.said, self._begun[-1].said if self._begun else {})

    def hear(self, said: Mapping[str, int]) -> None:
        """Note again what was said before an epoch that is replayed."""
        for name, mark in said.items():
            if self._event_time(name) is not None:
                self.advance(name, mark)

    def end(self, name: str) -> None:
        """Note that a source has no more rows."""
        self.advance(name, END_OF_TIME)

    def _event_time(self, name: str) -> str | None:
        definition = self._tables.get(name)
        return None if definition is None else definition.event_time

    def is_pending(self, now_ms: int) -> bool:
        """Whether something was said that an epoch would act on, or silence has lasted enough."""
        if any(name not in self._kept or self._kept[name] < m for name, m in self.said.items()):
            return True
        return bool(self._tracker.expire_idle(now_ms))

    def move(self, largest: Mapping[str, Mapping[str, int]], now_ms: int) -> EpochTime:
        """Advance by the largest event time of each part of a table, and by what was said."""
        self._now_ms = now_ms
        for name, parts in largest.items():
            known = self._moved.setdefault(name, dict(self.parts.get(name, {})))
            marks = {part: time - self._tables[name].delay_us for part, time in parts.items()}
            for part in marks:
                # All are expected before any speaks: the first must not stand for the whole.
                self._tracker.add_partition(name, part, now_ms)
            for part, mark in marks.items():
                known[part] = max(mark, known.get(part, mark))
                self._tracker.advance_partition_watermark(name, part, mark, now_ms)
        for name, mark in self.said.items():
            self._tracker.advance_source_watermark(name, mark)
        self._tracker.expire_idle(now_ms)
        before = self._begun[-1].after if self._begun else self._kept
        self._begun.append(self._now_moved())
        return EpochTime(before, self._begun[-1].after, now_ms)

    def _now_moved(self) -> Moved:
        parts = {name: dict(known) for name, known in self._moved.items()}
        return Moved(dict(self._tracker.watermarks()), parts, dict(self.said))

    @contextmanager
    def kept(
        self, epoch: int, behind: Mapping[str, int], epoch_time: EpochTime | None = None
    ) -> Iterator[None]:
        """Make an epoch's watermarks those to go on from, if the commit inside succeeds.

        Args:
            epoch: the one that is committed.
            behind: views that stay at older epochs.
            epoch_time: its time, if others may have begun behind it.
        """
        before, said, parts, cuts = self._kept, self.said, self.parts, self.cuts
        moved, left = self._through(epoch_time)
        self.said, self.parts = _since(said, moved.said), {**parts, **moved.parts}
        self._committing = moved
        try:
            self.settle(epoch, behind)
            yield
        except BaseException:
            self._kept, self.said, self.parts, self.cuts = before, said, parts, cuts
            self.back()
            raise
        finally:
            self._committing = None
        self._begun = left
        if not left:
            self._moved = {}

    def _through(self, epoch_time: EpochTime | None) -> tuple[Moved, list[Moved]]:
        """Return how an epoch leaves event time, and those that have begun behind it."""
        for place, each in enumerate(self._begun):
            if epoch_time is not None and each.after is epoch_time.after:
                return each, self._begun[place + 1 :]
        return self._now_moved(), []

    def between(self, epoch_time: EpochTime, start: int, stop: int) -> EpochTime:
        """Return the time that passes between two epochs, seen from one that has begun.

        Args:
            epoch_time: the time of the epoch that has begun; it ends with the newest.
            start: an epoch that some view stands at.
            stop: another, or the one that has begun.
        """
        return replace(
            epoch_time, before=self.cuts.get(start, {}), after=self.cuts.get(stop, epoch_time.after)
        )

    def marks_at(self, epoch: int) -> dict[str, int]:
        """Return the watermarks at an epoch that some view stands at, also of views defined since.

        Law: a view has none while one of its inputs has none, unless nobody waits for that input.
        """
        return self._with_views(self.cuts.get(epoch, {}))

    def _with_views(self, marks: Mapping[str, int]) -> dict[str, int]:
        found = dict(marks)
        for view, sources in self._graph.dependency_map().items():
            known = [found.get(each) for each in sources if each in found or not self.is_idle(each)]
            least = [mark for mark in known if mark is not None]
            if view not in found and least and len(least) == len(known):
                found[view] = min(least)
        return found

    def marks_of(self, marks: Mapping[str, int], behind: Mapping[str, int]) -> dict[str, int]:
        """Return watermarks, with those of views that stay at older epochs as they were there.

        A view that had none there has none: windows that it holds have not been shown yet.

        Args:
            marks: those of the newest epoch.
            behind: view that stays -> its epoch.
        """
        # A view that is left behind only now is at the epoch before: what is kept is of then.
        then = {at: self._with_views(self.cuts.get(at, self._kept)) for at in set(behind.values())}
        known = {
            name: then[behind[name]].get(name) if name in behind else mark
            for name, mark in marks.items()
        }
        return {name: mark for name, mark in known.items() if mark is not None}

    def now(self, now_ms: int) -> EpochTime:
        """Return the present as the first moment of a relation: before it there was nothing."""
        return EpochTime({}, self._tracker.watermarks(), now_ms)

    def settle(self, epoch: int, behind: Mapping[str, int]) -> Mapping[str, int]:
        """Say where event time stands at every relation, as an epoch is committed.

        Args:
            epoch: the one that is.
            behind: views that stay at older epochs, and so at older watermarks.
        """
        committing = self._committing
        now = dict(self._tracker.watermarks() if committing is None else committing.after)
        kept = self.marks_of(now, behind)
        self.cuts = {at: self.cuts.get(at, self._kept) for at in set(behind.values())}
        self.cuts[epoch], self._kept = now, kept
        return self._kept

    @property
    def current(self) -> Mapping[str, int]:
        """Relation -> its watermark in the last committed epoch."""
        return self._kept

    def event_time(self, name: str) -> str | None:
        """Return a table's column of event time."""
        return self._event_time(name)

    def is_idle(self, name: str) -> bool:
        """Whether a source is left out of its readers' watermarks."""
        return self._tracker.is_idle(name)


def _since(said: Mapping[str, int], heard: Mapping[str, int]) -> dict[str, int]:
    """Return what was said later than it was heard."""
    return {name: m for name, m in said.items() if name not in heard or m > heard[name]}
