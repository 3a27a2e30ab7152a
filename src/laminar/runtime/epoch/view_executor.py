"""Moves views through the passes of an epoch's plan; what fails leaves no trace.

Each pass sees the traces as they were at its start, and all that came up to its stop as one delta.
The work of views that fall, with their groups and their readers, is thrown away; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.dag import CheckpointBarrier
from laminar.errors import OperatorError
from laminar.model.trace import Segment, Trace
from laminar.model.trace_name import partial_trace, pending_trace, view_of
from laminar.runtime.epoch.flight import DeltaNotice
from laminar.runtime.epoch.maintainer import Maintainer
from laminar.runtime.epoch.node_task import EpochTask
from laminar.runtime.epoch.outcome import Outcome, sizes_of
from laminar.runtime.epoch.python_operators import restore
from laminar.runtime.epoch.report import ViewReport
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.runtime.scheduling.epoch_plan import EpochPlan, Move
from laminar.runtime.spark.workspace import Workspace
from laminar.store import discard

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine


class PassedOver(Exception):
    """A view fell at an epoch that others went past without a stop; plan anew without it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class MvPipelineExecutor:
    """Runs plans, one at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._aside: Workspace | None = None

    def run(
        self,
        plan: EpochPlan,
        traces: Mapping[str, Trace],
        epoch_time: EpochTime,
        workspace: Workspace,
        sizes: Mapping[str, int],
    ) -> Outcome:
        """Run all passes; nothing is committed.

        Args:
            plan: what is to happen.
            traces: what is stored, with the rows that the epoch brought to the tables.
            epoch_time: the epoch's time.
            workspace: where the pass from the last epoch to this one runs.
            sizes: aggregate -> partial rows it made last.

        Raises:
            PassedOver: views fell, and the plan for the others is not right any more.
        """
        outcome = Outcome(dict(traces))
        for each in plan.passes:
            views = each.views - outcome.fallen
            if views:
                self._run(
                    plan, replace(each, views=views), epoch_time, workspace, outcome, dict(sizes)
                )
            if outcome.fallen and plan.passed_over(outcome.fallen):
                self._drop(plan.stepping(), outcome, traces)
                raise PassedOver(outcome)
        self._drop(outcome.fallen, outcome, traces)
        if outcome.bindings is None:  # only tables went from the last epoch to this one
            relations = self._engine.catalog.relations
            versions = versions_of(relations, traces, plan.epoch - 1, plan.epoch)
            outcome.bindings = Bindings(
                workspace.session, workspace.store, relations, versions, epoch_time=epoch_time
            )
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
        engine = self._engine
        is_newest = each.start == plan.epoch - 1
        if not is_newest:
            epoch_time = engine.time.watermarks.between(epoch_time, each.start, each.stop)
            workspace = self._beside()
        relations = engine.catalog.relations
        versions = versions_of(relations, outcome.traces, each.start, each.stop)
        moved = {
            name: DeltaNotice(name, versions[name].changed_rows)
            for name in engine.tables()
            if versions[name].delta
        }
        # Of views that come from further behind, inputs may have moved in passes before this one.
        due = engine.time.in_motion(epoch_time, outcome.traces) if is_newest else each.views
        trial = EpochAttempt(self, each, epoch_time, workspace, sizes)
        # A barrier passes every node once, with its state of this epoch: not if some go on later.
        barrier = engine.checkpoints.enter(plan.epoch) if len(plan.passes) == 1 else None
        failures = trial.fly(versions, each.views, moved if is_newest else {}, due, barrier)
        if failures and any(trace_versions.has_retractions for trace_versions in versions.values()):
            failures = self._carefully(trial, failures)
        self._adopt(trial, each, outcome)
        if is_newest:
            outcome.bindings = trial.bindings
        if failures:
            outcome.failures |= failures
            readers = engine.catalog.registry.get_dependents
            names = {*engine.catalog.programs, *engine.tables()}
            outcome.fallen |= plan.falls_with(failures, {name: readers(name) for name in names})

    def _carefully(
        self, trial: EpochAttempt, failures: Mapping[str, BaseException]
    ) -> dict[str, BaseException]:
        """Try what failed once more, without rows that are there and taken back.

        A trace may hold a row and its retraction. Usually it is cheaper to compute with both than
        to find out that they cancel, but an expression may fail for a row that is gone.
        """
        registry = self._engine.catalog.registry
        again = {view for name in failures for view in (name, *registry.all_dependents(name))}
        again &= trial.views
        versions = dict(trial.bindings.versions)
        for name in self._own(again):
            if name in versions:
                discard(self._engine.root, _files(versions[name].delta))
                versions[name] = replace(versions[name], delta=())
        self._restore(again)
        self._engine.checkpoints.withdrawn(trial.stop)
        return trial.fly(versions, again, {}, again, careful=True)

    def _adopt(self, trial: EpochAttempt, each: Move, outcome: Outcome) -> None:
        """Add what a pass made to what is stored."""
        for name in self._own(each.views):
            trace_versions = trial.bindings.versions.get(name)
            if trace_versions is None or not trace_versions.delta:
                continue
            made = tuple(replace(segment, lo=each.start + 1) for segment in trace_versions.delta)
            outcome.traces[name] = Trace(trace_versions.schema, (*trace_versions.before, *made))
        outcome.sizes |= sizes_of(trial.bindings.versions)
        for task, maintainer in trial.done:
            for view, report in task.reports.items():
                outcome.reports[view] = _added(outcome.reports.get(view), report, each)
            outcome.in_time.append(maintainer.in_time.results)
            outcome.late += maintainer.late.batches

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
        discard(self._engine.root, lost)
        self._restore(fallen)
        outcome.reports = {k: v for k, v in outcome.reports.items() if k not in fallen}
        outcome.late = [batch for batch in outcome.late if batch.relation not in fallen]
        outcome.in_time = [
            part.only(lambda trace: view_of(trace) not in fallen) for part in outcome.in_time
        ]

    def _restore(self, views: Iterable[str]) -> None:
        """Give Python operators the state that was committed last."""
        operators = self._engine.operators
        given = {name: operators[name] for name in views if name in operators}
        restore(given, self._engine.manifest.state.operators)

    def _own(self, views: Iterable[str]) -> list[str]:
        """Return the traces that views are kept in."""
        names = sorted(part for view in views for part in self._engine.storing.own(view))
        return [*names, *map(partial_trace, names), *map(pending_trace, names)]

    def _beside(self) -> Workspace:
        """Return the room for views that are further behind; its names are not those of others."""
        if self._aside is None:
            self._aside = Workspace.beside(self._engine.root, self._engine.spark)
        self._aside.store.collect_limit = self._engine.store.collect_limit
        return self._aside

    @property
    def engine(self) -> Engine:
        """The engine whose views are moved."""
        return self._engine


class EpochAttempt:
    """One pass as it is tried; the second time with more care."""

    def __init__(
        self,
        passes: MvPipelineExecutor,
        each: Move,
        epoch_time: EpochTime,
        workspace: Workspace,
        sizes: dict[str, int],
    ) -> None:
        self._engine = passes.engine
        self.views = each.views
        self.stop = each.stop
        self._epoch_time = epoch_time
        self._workspace = workspace
        self._sizes = sizes
        self.done: list[tuple[EpochTask, Maintainer]] = []
        self.bindings = Bindings(
            workspace.session, workspace.store, self._engine.catalog.relations, {}
        )

    def fly(
        self,
        versions: dict[str, TraceVersions],
        views: Collection[str],
        moved: Mapping[str, DeltaNotice],
        due: Collection[str],
        barrier: CheckpointBarrier | None = None,
        *,
        careful: bool = False,
    ) -> dict[str, BaseException]:
        """Run some of the views; return those that failed."""
        engine = self._engine
        self.bindings = Bindings(
            self._workspace.session,
            self._workspace.store,
            engine.catalog.relations,
            versions,
            careful=careful,
            epoch_time=self._epoch_time,
            statement_cache=self._workspace.statement_cache,
        )
        maintainer = Maintainer(self.bindings, self._workspace.store, self.stop, engine.full.run)
        held = frozenset(engine.catalog.programs) - frozenset(views)
        late_kept = engine.limits.late_rows_kept
        task = EpochTask(engine.catalog, self.bindings, maintainer, held, self._sizes, late_kept)
        self.done.append((task, maintainer))
        due = frozenset(due) & frozenset(views)
        flight = engine.current_executor().launch(task, moved, due, barrier)
        try:
            flight.wait()
        except Exception:
            if not flight.failures:
                raise
        return {_culprit(name, error): error for name, error in flight.failures.items()}


def _culprit(node: str, error: BaseException) -> str:
    """Return the view to blame: a fused one runs inside its readers."""
    return error.node if isinstance(error, OperatorError) else node


def _files(segments: Iterable[Segment]) -> set[str]:
    return {file for segment in segments for file in segment.files}


def _added(before: ViewReport | None, report: ViewReport, each: Move) -> ViewReport:
    """Return the report of a view that may have moved in several passes."""
    if before is None:
        return replace(report, from_epoch=each.start, to_epoch=each.stop)
    return replace(
        before,
        rows_out=before.rows_out + report.rows_out,
        duration_ms=before.duration_ms + report.duration_ms,
        to_epoch=each.stop,
    )
