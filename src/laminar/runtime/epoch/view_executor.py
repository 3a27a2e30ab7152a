"""Moves views by the moves of an epoch's plan; what fails leaves no trace.

Each move sees the traces as they were at its start, and all that came up to its stop as one delta.
The work of views that fall, with their groups and their readers, is thrown away; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from laminar.model.trace import Segment, Trace
from laminar.model.trace_name import partial_trace, pending_trace, view_of
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.epoch.attempt import EpochAttempt, Launcher
from laminar.runtime.epoch.flight import DeltaNotice
from laminar.runtime.epoch.outcome import Outcome, ViewReport, sizes_of
from laminar.runtime.epoch.python_operators import restore
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.history.turn import inside
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.runtime.scheduling.epoch_plan import EpochPlan, Move
from laminar.runtime.spark.workspace import Environment, Workspace
from laminar.store import discard


class PassedOver(Exception):
    """A view fell at an epoch that others went past without a stop; plan anew without it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class MvPipelineExecutor:
    """Runs plans, one at a time.

    Args:
        env: where it works.
        defined: the views.
        time: what time sets in motion.
        launcher: sends moves on their way.
        operator_states: the state of Python operators as it was committed last.
    """

    def __init__(
        self,
        env: Environment,
        defined: Defined,
        time: EventTime,
        launcher: Launcher,
        operator_states: Callable[[], Mapping[str, bytes]],
    ) -> None:
        self._env = env
        self._defined = defined
        self._time = time
        self._launcher = launcher
        self._operator_states = operator_states
        self._aside: Workspace | None = None

    def run(
        self,
        plan: EpochPlan,
        traces: Mapping[str, Trace],
        epoch_time: EpochTime,
        workspace: Workspace,
        sizes: Mapping[str, int],
    ) -> Outcome:
        """Run all moves; nothing is committed.

        Args:
            plan: what is to happen.
            traces: what is stored, with the rows that the epoch brought to the tables.
            epoch_time: the epoch's time.
            workspace: where the move from the last epoch to this one runs.
            sizes: aggregate -> partial rows it made last.

        Raises:
            PassedOver: views fell, and the plan for the others is not right any more.
        """
        outcome = Outcome(dict(traces))
        for each in plan.moves:
            views = each.views - outcome.fallen
            if views:
                self._run(
                    plan, replace(each, views=views), epoch_time, workspace, outcome, dict(sizes)
                )
            if outcome.fallen and plan.passed_over(outcome.fallen):
                self._drop(plan.stepping(), outcome, traces)
                raise PassedOver(outcome)
        self._drop(outcome.fallen, outcome, traces)
        return outcome

    def _run(
        self,
        plan: EpochPlan,
        each: Move,
        epoch_time: EpochTime,
        workspace: Workspace,
        outcome: Outcome,
        sizes: dict[str, int],
    ) -> None:
        is_newest = each.start == plan.epoch - 1
        if not is_newest:
            epoch_time = self._time.watermarks.between(epoch_time, each.start, each.stop)
            workspace = self._beside()
        versions = versions_of(
            self._defined.catalog.relations, outcome.traces, each.start, each.stop
        )
        attempts = [self._launch(plan, each, epoch_time, workspace, versions, outcome, sizes)]
        failures = attempts[0].failures()
        if failures and any(found.has_retractions for found in versions.values()):
            attempts.append(self._carefully(attempts[0], failures, each, epoch_time, workspace))
            failures = attempts[1].failures()
        if failures:
            self._env.lifeline.check(failures.values())  # it is not the views that failed then
        self._adopt(attempts, each, outcome)
        if failures:
            outcome.failures |= failures
            catalog = self._defined.catalog
            names = {*catalog.programs, *self._defined.tables()}
            readers = {name: catalog.registry.get_dependents(name) for name in names}
            outcome.fallen |= plan.falls_with(failures, readers)

    def _launch(
        self,
        plan: EpochPlan,
        each: Move,
        epoch_time: EpochTime,
        workspace: Workspace,
        versions: dict[str, TraceVersions],
        outcome: Outcome,
        sizes: dict[str, int],
    ) -> EpochAttempt:
        is_newest = each.start == plan.epoch - 1
        moved = {
            name: DeltaNotice(name, versions[name].changed_rows)
            for name in self._defined.tables()
            if is_newest and versions[name].delta
        }
        # Of views that come from further behind, inputs may have moved before this move.
        due = self._time.in_motion(epoch_time, outcome.traces) if is_newest else each.views
        # A barrier passes every node once, with its state of this epoch: not if some go on later.
        is_only = len(plan.moves) == 1
        return self._launcher.launch(
            workspace,
            versions,
            epoch_time,
            each.stop,
            moved,
            due,
            sizes=sizes,
            views=each.views,
            barrier=self._launcher.barriers.enter(plan.epoch) if is_only else None,
        )

    def _carefully(
        self,
        first: EpochAttempt,
        failures: Mapping[str, BaseException],
        each: Move,
        epoch_time: EpochTime,
        workspace: Workspace,
    ) -> EpochAttempt:
        """Try what failed once more, without rows that are there and taken back.

        A trace may hold a row and its retraction. Usually it is cheaper to compute with both than
        to find out that they cancel, but an expression may fail for a row that is gone.
        """
        registry = self._defined.catalog.registry
        again = {view for name in failures for view in (name, *registry.all_dependents(name))}
        again &= first.views
        versions = dict(first.bindings.versions)
        for name in self._own(again):
            if name in versions:
                discard(self._env.root, _files(versions[name].delta))
                versions[name] = replace(versions[name], delta=())
        self._restore(again)
        self._launcher.barriers.withdrawn(each.stop)
        return self._launcher.launch(
            workspace,
            versions,
            epoch_time,
            each.stop,
            {},
            again,
            sizes=first.task.sizes,
            views=again,
            careful=True,
        )

    def _adopt(self, attempts: list[EpochAttempt], each: Move, outcome: Outcome) -> None:
        """Add what a move made to what is stored."""
        versions = attempts[-1].bindings.versions
        for name in self._own(each.views):
            found = versions.get(name)
            if found is None or not found.delta:
                continue
            made = tuple(replace(segment, lo=each.start + 1) for segment in found.delta)
            outcome.traces[name] = Trace(found.schema, (*found.before, *made))
        outcome.sizes |= sizes_of(versions)
        for attempt in attempts:
            for view, report in attempt.task.reports.items():
                outcome.reports[view] = _added(outcome.reports.get(view), report, each)
            outcome.in_time.append(attempt.maintainer.in_time.results)
            outcome.late += attempt.maintainer.late.batches

    def _drop(self, fallen: Collection[str], outcome: Outcome, before: Mapping[str, Trace]) -> None:
        """Take back all that some views did."""
        if not fallen:
            return
        lost: set[str] = set()
        for name in self._own(fallen):
            old = before.get(name)
            if name in outcome.traces and outcome.traces[name] != old:
                kept = _files(old.segments) if old is not None else set()
                lost |= _files(outcome.traces.pop(name).segments) - kept
                if old is not None:
                    outcome.traces[name] = old
        discard(self._env.root, lost)
        self._restore(fallen)
        outcome.reports = {k: v for k, v in outcome.reports.items() if k not in fallen}
        outcome.late = [batch for batch in outcome.late if batch.relation not in fallen]
        outcome.in_time = [
            part.only(lambda trace: view_of(trace) not in fallen) for part in outcome.in_time
        ]

    def take_back_operators(self) -> None:
        """Give all Python operators the state that was committed last: an epoch did not commit."""
        self._restore(tuple(self._defined.operators))

    def _restore(self, views: Iterable[str]) -> None:
        """Give Python operators the state that was committed last."""
        operators = self._defined.operators
        for name in [each for each in views if each in operators]:
            with inside(self._env.store.root, name):
                restore({name: operators[name]}, self._operator_states())

    def _own(self, views: Iterable[str]) -> list[str]:
        """Return the traces that views are kept in."""
        names = sorted(part for view in views for part in self._defined.catalog.parts(view))
        return [*names, *map(partial_trace, names), *map(pending_trace, names)]

    def _beside(self) -> Workspace:
        """Return where views go that are further behind; its names are not those of others."""
        if self._aside is None:
            self._aside = self._env.workspace()
        self._aside.store.collect_limit = self._env.store.collect_limit
        return self._aside


def _files(segments: Iterable[Segment]) -> set[str]:
    return {file for segment in segments for file in segment.files}


def _added(before: ViewReport | None, report: ViewReport, each: Move) -> ViewReport:
    """Return the report of a view that may have made several moves."""
    if before is None:
        return replace(report, from_epoch=each.start, to_epoch=each.stop)
    return replace(
        before,
        rows_out=before.rows_out + report.rows_out,
        duration_ms=before.duration_ms + report.duration_ms,
        to_epoch=each.stop,
    )
