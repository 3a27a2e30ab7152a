"""Which views move with the next epoch, which stay behind and why; nothing here runs a statement.

See `epoch_plan` for the laws.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.mv import MvState
from laminar.mv.retry import Failure, RetryPolicy
from laminar.mv.schedule import Schedule
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.consistency_groups import ViewGroup, groups_of
from laminar.runtime.scheduling.epoch_plan import (
    EpochPlan,
    Hold,
    HoldRules,
    Skip,
    plan_steps,
    schedules_of,
)
from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.dag import StreamingDag


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened to a group since the database was opened."""

    holds: int = 0
    """Epochs that went by without it."""
    retries: int = 0
    """Tries after a failure."""
    failures: int = 0


class ViewScheduler:
    """The progress of all views; whoever changes it has the writer's turn.

    Args:
        defined: what there is.
        manifest: what was committed last.
        clock: the wall clock, in milliseconds.
        functions: names of the functions of Python code that are there.
    """

    def __init__(
        self,
        defined: Defined,
        manifest: Callable[[], Manifest],
        clock: Callable[[], int],
        functions: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._defined = defined
        self._manifest = manifest
        self._clock = clock
        self._functions = functions
        self._locked: dict[object, frozenset[str]] = {}
        """Who builds views anew -> which; each puts in and takes out its own."""
        self.restore()

    def restore(self) -> None:
        """Go on from what the newest manifest says; what was counted before is forgotten."""
        self.progress = ViewProgress.from_state(self._manifest().state)
        self.counters: dict[str, Counters] = {}
        self._known: tuple[StreamingDag, list[ViewGroup]] | None = None
        self.mark()

    # Where views stand

    @property
    def since(self) -> Mapping[str, int]:
        """View that is not at the newest epoch -> the epoch it is at."""
        return self.progress.behind

    def cursor(self, view: str) -> int:
        """Return the epoch that a view's rows are of."""
        return self.progress.cursor(view, self._manifest().epoch)

    def reach(self, names: Iterable[str]) -> int:
        """Return the newest epoch that all of some relations have; tables have all."""
        return self.progress.reach(names, self._manifest().epoch)

    def require(self, view: str, inputs: Iterable[str], at: int) -> None:
        """Raise if a view cannot be computed at an epoch because an input began after it."""
        self.progress.require(inputs, at, list(inputs), reader=view)

    def stops(self, view: str) -> list[int]:
        """Return the epochs at which a view must be readable, oldest first; the last is its own."""
        begins, own = self.progress.filled.get(view, 0), self.cursor(view)
        return sorted({own, *(at for at in self.progress.live() if begins <= at <= own)})

    @property
    def paused(self) -> frozenset[str]:
        """Views that the user has paused."""
        return frozenset(
            view.name
            for view in self._defined.catalog.registry.views()
            if view.state is MvState.PAUSED
        )

    def held(self) -> frozenset[str]:
        """Views that are behind, or would stay behind if an epoch ran now."""
        return frozenset(self.plan(self._clock()).held) | frozenset(self.since)

    def is_even(self) -> bool:
        """Whether every view steps with every epoch, and none is behind."""
        return not self.held() and all(e.is_every_epoch for e in self.schedules().values())

    def groups(self) -> list[ViewGroup]:
        """Return the groups with the number of their commits."""
        commits = self.progress.commits
        dag = self._defined.catalog.dag
        if self._known is None or self._known[0] is not dag:
            self._known = (dag, groups_of(self._defined.catalog))
        for each in self._known[1]:
            each.group.epoch = max((commits.get(name, 0) for name in each.members), default=0)
        return self._known[1]

    # What moves

    def plan(
        self,
        now_ms: int,
        forced: Collection[str] = (),
        failed: Mapping[str, str] | None = None,
    ) -> EpochPlan:
        """Plan the next epoch.

        Args:
            now_ms: the wall clock.
            forced: views that step now, whatever their schedule and however they failed before.
            failed: views that were tried already, and what came of it.
        """
        registry = self._defined.catalog.registry
        groups = self.groups()
        locked = frozenset[str]().union(*tuple(self._locked.values()))
        situation = HoldRules(
            self._defined.catalog,
            self.progress,
            locked,
            now_ms,
            self._functions() if self._defined.catalog.functions.by_name else frozenset(),
        )
        skipped = situation.skipped(groups, frozenset(forced))
        for view, reason in (failed or {}).items():
            skipped[view] = Hold(Skip.FAILED, view, reason)
        return plan_steps(
            [each.members for each in groups],
            {name: registry.get_dependencies(name) for name in registry.topo_order()},
            {name: self.cursor(name) for name in registry.topo_order()},
            skipped,
            self._manifest().epoch + 1,
        )

    def obstacle(self, view: str) -> Hold | None:
        """Return what keeps a view from the next epoch even if it is asked to step."""
        return self._asked(view).held.get(view)

    def with_inputs(self, views: Iterable[str]) -> frozenset[str]:
        """Return views and all views that they read, however far."""
        registry = self._defined.catalog.registry
        return frozenset(
            each
            for view in views
            for each in (view, *registry.all_dependencies(view))
            if each in registry
        )

    def _asked(self, view: str) -> EpochPlan:
        return self.plan(self._clock(), self.with_inputs([view]))

    def has_work(self, now_ms: int) -> bool:
        """Whether views that are behind could move now, and have something to take."""
        if not self.since:
            return False
        moving = self.plan(now_ms).stepping() & frozenset(self.since)
        return any(self._has_news(view) for view in moving)

    def _has_news(self, view: str) -> bool:
        registry, traces = self._defined.catalog.registry, self._manifest().traces
        for name in registry.all_dependencies(view):
            if registry.is_base_table(name) and name in traces:
                segments = traces[name].segments
                if segments and segments[-1].hi > self.cursor(view):
                    return True
        return view in self.progress.failures

    def schedules(self) -> dict[str, Schedule]:
        """Return the schedule that counts for every view."""
        return schedules_of(self._defined.catalog)

    # What happened

    def retry_policy(self) -> RetryPolicy:
        """Return how long failing views wait, as the settings say."""
        number = self._defined.settings.number
        return RetryPolicy(
            number("retry_backoff_ms"), number("retry_backoff_most_ms"), number("max_failures")
        )

    def failed(self, failures: Mapping[str, str], now_ms: int) -> dict[str, Failure]:
        """Return the failures to remember when some views failed, and why."""
        if not failures:
            return {}
        policy, known = self.retry_policy(), self.progress.failures
        return {
            view: policy.failed(known.get(view), reason, now_ms)
            for view, reason in failures.items()
        }

    def after(
        self, plan: EpochPlan, fallen: Collection[str], failed: Mapping[str, Failure], now_ms: int
    ) -> ViewProgress:
        """Return where views stand when an epoch commits.

        Args:
            plan: what was to happen.
            fallen: views that stay where they were after all.
            failed: views that failed.
            now_ms: the wall clock.
        """
        at = {v: plan.before[v] if v in fallen else plan.after[v] for v in plan.after}
        moved = {view for view in at if at[view] > plan.before[view]}
        commits = dict(self.progress.commits)
        for each in self.groups():
            if moved & set(each.members):
                commits |= dict.fromkeys(each.members, each.group.advance_epoch())
        scheduled = {v for v, each in self.schedules().items() if not each.is_every_epoch}
        return replace(
            self.progress,
            behind={view: cursor for view, cursor in at.items() if cursor < plan.epoch},
            failures={
                **{v: each for v, each in self.progress.failures.items() if v not in moved},
                **failed,
            },
            stepped_ms={
                view: now_ms if view in moved else self.progress.stepped_ms.get(view, now_ms)
                for view in scheduled
            },
            commits=commits,
        )

    @contextmanager
    def counting(
        self, plan: EpochPlan, fallen: Collection[str], failed: Collection[str]
    ) -> Iterator[None]:
        """Count what an epoch did to the groups, if the commit inside succeeds."""
        counted: dict[str, Counters] = {}
        for each in self.groups():
            name, members = each.name, set(each.members)
            known = self.counters.get(name, Counters())
            retried = members & set(self.progress.failures) & plan.stepping()
            counted[name] = Counters(
                known.holds + bool(members & (set(plan.held) | set(fallen))),
                known.retries + bool(retried),
                known.failures + bool(members & set(failed)),
            )
        yield
        self.counters |= counted

    @contextmanager
    def with_progress(self, progress: ViewProgress) -> Iterator[None]:
        """Make progress true, if the commit inside succeeds."""
        before, self.progress = self.progress, progress
        try:
            yield
        except BaseException:
            self.progress = before
            raise
        self.mark()

    def mark(self) -> None:
        """Let the registry say which views fail; one that is paused stays so."""
        registry, failures = self._defined.catalog.registry, self.progress.failures
        for view in registry.views():
            state = MvState.ERROR if view.name in failures else MvState.RUNNING
            if view.state not in (state, MvState.PAUSED):
                registry.set_state(view.name, state)

    def failing(self, failed: Mapping[str, Failure]) -> AbstractContextManager[None]:
        """Remember failures, if the commit inside succeeds."""
        failures = {**self.progress.failures, **failed}
        return self.with_progress(replace(self.progress, failures=failures))

    def saved(self, state: EngineState) -> EngineState:
        """Return what a manifest has to carry; relations that are gone are forgotten."""
        return replace(self.known().saved(state), paused=self.paused)

    def known(self) -> ViewProgress:
        """Return the progress of the relations that are defined now."""
        return self.progress.only(self._defined.catalog.programs, self._defined.tables())

    def can_move(self, view: str) -> bool:
        """Whether a view would move if it were asked to."""
        plan = self._asked(view)
        return view in self.since and plan.after[view] > plan.before[view]

    @contextmanager
    def locked(self, views: Collection[str]) -> Iterator[None]:
        """Keep views where they are while somebody builds them anew beside the epochs."""
        builder = object()
        self._locked[builder] = frozenset(views)
        try:
            yield
        finally:
            del self._locked[builder]
