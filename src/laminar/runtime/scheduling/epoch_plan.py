"""Which views an epoch moves, from where to where, and in which order. Nothing here runs.

Every view has a *cursor*: the epoch that its rows are of. The laws:

- A group moves as a whole, or stays: one member that is skipped holds all.
- A view goes no further than what it reads: to the least cursor of its inputs. So a cursor is never
  ahead of those upstream, and every view is the answer for one cut of all sources.
- A step stops at every cursor that will be left behind between its ends. So whatever is read
  together can be read at the least of its cursors, and a view over inputs of different cursors can
  follow the slowest of them.

A view goes by *moves*: its inputs as they were at the start, and all that came up to the stop as
one delta. For each stop, views that are further ahead go first: they include all that others read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from laminar.dag.diamond import is_group_due
from laminar.mv import MvState
from laminar.mv.schedule import EVERY_EPOCH, Schedule, effective, parse_schedule
from laminar.runtime.catalog.consistency_groups import ViewGroup
from laminar.runtime.catalog.definitions import LateDefinition, ViewDefinition
from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog


class Skip(StrEnum):
    """Why a view is not moved."""

    PAUSED = "paused"
    SUSPENDED = "suspended"
    FAILED = "failed"
    BACKING_OFF = "backing off"
    LOCKED = "locked by a rebuild"
    GATED = "source gated"
    NO_FUNCTION = "waiting for a function"
    NOT_DUE = "not due"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a view stays behind: what is the matter, with whom, and what that one says."""

    reason: Skip
    because: str
    """The view or source that holds it; its own name, if it holds itself."""
    detail: str = ""

    def told(self, view: str) -> str:
        """Say it in words, as system tables and EXPLAIN show it for a view."""
        own = f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value
        return own if view == self.because else f"waits for {self.because} ({own})"


@dataclass(frozen=True, slots=True)
class Move:
    """Views that go from one epoch to another together."""

    start: int
    stop: int
    views: frozenset[str]


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """What an epoch does to the views."""

    epoch: int
    before: Mapping[str, int]
    """View -> its cursor now."""
    after: Mapping[str, int]
    """View -> its cursor when all goes well."""
    held: Mapping[str, Hold]
    """Views that do not reach the epoch."""
    moves: tuple[Move, ...]
    """In the order they run."""
    groups: tuple[tuple[str, ...], ...] = ()

    def stepping(self) -> frozenset[str]:
        """Return the views that move, however far."""
        return frozenset(view for view in self.after if self.after[view] > self.before[view])

    def falls_with(self, failed: Iterable[str], readers: Mapping[str, Iterable[str]]) -> set[str]:
        """Return all that stay because some fail: their groups, and whoever reads them."""
        mates = {view: group for group in self.groups for view in group}
        found: set[str] = set()
        waiting = list(failed)
        while waiting:
            view = waiting.pop()
            if view not in found:
                found.add(view)
                waiting += [*mates.get(view, ()), *readers.get(view, ())]
        return found

    def passed_over(self, fallen: Iterable[str]) -> bool:
        """Whether a step of the others went past a cursor that now stays, without a stop there."""
        down = set(fallen)
        left = {self.before[view] for view in down if view in self.before}
        return any(
            each.start < cursor < each.stop
            for each in self.moves
            if each.views - down
            for cursor in left
        )


def plan_steps(
    groups: Sequence[tuple[str, ...]],
    reads: Mapping[str, Iterable[str]],
    cursors: Mapping[str, int],
    skipped: Mapping[str, Hold],
    epoch: int,
) -> EpochPlan:
    """Plan an epoch.

    Args:
        groups: the groups, each after those it reads from; members in order of execution.
        reads: view -> the tables and views it reads; tables are always at the epoch.
        cursors: view -> the epoch that its rows are of.
        skipped: views that are not moved, and why.
        epoch: the epoch to reach.
    """
    after = dict(cursors)
    held: dict[str, Hold] = {}
    for group in groups:
        inputs = {each for view in group for each in reads[view]} - set(group)
        own = [(view, skipped[view]) for view in group if view in skipped]
        if own:
            for view in group:
                held[view] = skipped.get(view) or own[0][1]
            continue
        target = min((after[each] for each in inputs if each in after), default=epoch)
        for view in group:
            after[view] = max(cursors[view], target)
        if target < epoch:
            behind = min((each for each in inputs if each in held), key=lambda each: after[each])
            held |= dict.fromkeys(group, held[behind])
    return EpochPlan(epoch, cursors, after, held, _moves(cursors, after), tuple(groups))


def _moves(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Move, ...]:
    found: list[Move] = []
    at = dict(before)
    for stop in sorted(set(after.values())):
        moving = [view for view in at if at[view] < stop <= after[view]]
        for start in sorted({at[view] for view in moving}, reverse=True):
            views = frozenset(view for view in moving if at[view] == start)
            found.append(Move(start, stop, views))
        at |= dict.fromkeys(moving, stop)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class HoldRules:
    """All that decides whether a view may move."""

    catalog: Catalog
    progress: ViewProgress
    locked: frozenset[str]
    """Views that are being built anew."""
    now_ms: int
    functions: frozenset[str] = frozenset()
    """Functions of Python code that are there, in lower case."""

    def skipped(self, groups: Iterable[ViewGroup], forced: frozenset[str]) -> dict[str, Hold]:
        """Return the views that hold their groups, and why.

        Args:
            groups: all groups.
            forced: views that step now, whatever their schedule and however they failed before.
        """
        found: dict[str, Hold] = {}
        schedules = schedules_of(self.catalog)
        for group in groups:
            is_forced = bool(forced & set(group.members))
            own = {view: self._hold(view, is_forced=is_forced) for view in group.members}
            held = {view: hold for view, hold in own.items() if hold is not None}
            found |= held if held or is_forced else self._not_due(group, schedules)
        return found

    def _hold(self, view: str, *, is_forced: bool) -> Hold | None:
        """Return why a view must not move, apart from its schedule."""
        registry = self.catalog.registry
        if registry.view(view).state is MvState.PAUSED:
            return Hold(Skip.PAUSED, view)
        failure = self.progress.failures.get(view)
        if failure is not None and failure.is_suspended:
            return Hold(Skip.SUSPENDED, view, f"failed {failure.count} times, {failure.reason}")
        if view in self.locked:
            return Hold(Skip.LOCKED, view)
        definition = self.catalog.definitions[view]
        for function in self.catalog.python_calls(definition):
            if function.lower() not in self.functions:
                return Hold(Skip.NO_FUNCTION, view, f"function {function} is not registered")
        for source in registry.get_dependencies(view):
            if source in self.progress.gated:
                return Hold(Skip.GATED, source)
        if failure is not None and not is_forced and self.now_ms < failure.retry_at_ms:
            return Hold(Skip.BACKING_OFF, view, failure.reason)
        return None

    def _not_due(self, group: ViewGroup, schedules: Mapping[str, Schedule]) -> dict[str, Hold]:
        """Return the member that is due last, if the group is not due."""
        waiting: dict[str, int] = {}
        for view in group.members:
            last = self.progress.stepped_ms.get(view)
            if last is not None and not schedules[view].is_due(last, self.now_ms):
                waiting[view] = schedules[view].next_after(last)
        if is_group_due(group.policy, (view not in waiting for view in group.members)):
            return {}
        last_one = max(waiting, key=lambda view: waiting[view])
        when = datetime.fromtimestamp(waiting[last_one] / 1000, UTC).isoformat(timespec="seconds")
        return {last_one: Hold(Skip.NOT_DUE, last_one, f"due at {when}")}


def schedules_of(catalog: Catalog) -> dict[str, Schedule]:
    """Return the schedule that counts for every view.

    A relation that takes late rows has that of its view; who reads it counts as reading the view.
    """
    registry, late = catalog.registry, {}
    given: dict[str, Schedule] = {}
    for name, each in catalog.definitions.items():
        if isinstance(each, LateDefinition):
            late[name] = each.view
        elif name in catalog.programs:
            own = each.schedule if isinstance(each, ViewDefinition) else EVERY_EPOCH
            given[name] = parse_schedule(own)

    def readers(view: str) -> list[str]:
        direct = registry.get_dependents(view)
        beyond = [other for each in direct if each in late for other in readers(each)]
        return [each for each in direct if each not in late] + beyond

    found = effective(given, [each for each in registry.topo_order() if each in given], readers)
    return {**found, **{name: found[view] for name, view in late.items()}}
