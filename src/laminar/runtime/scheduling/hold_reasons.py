"""Why views do not move, from what is defined and where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from laminar.dag.diamond import is_group_due
from laminar.mv import MvState
from laminar.mv.schedule import EVERY_EPOCH, Schedule, effective, parse_schedule
from laminar.runtime.catalog.consistency_groups import ViewGroup
from laminar.runtime.catalog.definitions import LateDefinition, ViewDefinition
from laminar.runtime.scheduling.epoch_plan import Hold, Skip
from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog


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
