"""Which relations keep rows, and computing those of one that starts to.

A relation keeps rows when somebody needs them: readers, sinks, subscriptions, a definition. Who
begins to need some has them computed from what its inputs hold, in the commit that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.delta.change import Version, consolidate, quote
from laminar.delta.program import Program
from laminar.errors import FunctionNotRegistered
from laminar.model.trace import WEIGHT, Segment, Trace
from laminar.model.trace_name import partial_trace, view_of
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.storage_plan import StoragePlan
from laminar.runtime.epoch.executor import CurrentExecutor, named_error
from laminar.runtime.epoch.full_query import FullQueries
from laminar.runtime.epoch.maintainer import FullRunner, Maintainer
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.history.ledger import Ledger
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.session import suit
from laminar.runtime.spark.workspace import Environment
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.catalog.catalog import Catalog


class Filler:
    """Computes rows that are missing, at the current epoch; commits nothing."""

    def __init__(self, session: SparkSession, store: SegmentStore, full: FullRunner) -> None:
        self._session = session
        self._store = store
        self._full = full

    def fill(
        self,
        program: Program,
        relations: StoragePlan,
        traces: Mapping[str, Trace],
        epoch: int,
        epoch_time: EpochTime,
    ) -> dict[str, Trace]:
        """Return the traces with those of a view computed, at an epoch that its inputs have.

        Before `epoch_time` there was nothing.
        """
        own = frozenset(each.shape.name for each in program.relations)
        versions = {
            name: TraceVersions(trace_versions.schema, (), trace_versions.before)
            for name, trace_versions in versions_of(relations, traces, epoch).items()
        }
        # Once per view, so the sure way: no expression sees a row that was taken back.
        careful = any(trace_versions.has_retractions for trace_versions in versions.values())
        bindings = Bindings(
            self._session,
            self._store,
            relations,
            versions,
            first=own,
            careful=careful,
            epoch_time=epoch_time,
        )
        maintainer = Maintainer(bindings, self._store, epoch, self._full)
        for relation in program.relations:
            maintainer.maintain(relation)
        made = {
            trace: Trace(versions[trace].schema, versions[trace].delta)
            for name in own
            for trace in (name, partial_trace(name))
            if trace in versions and versions[trace].delta
        }
        return {**traces, **made}

    def store_rows(
        self, name: str, relations: StoragePlan, traces: Mapping[str, Trace], stops: Iterable[int]
    ) -> dict[str, Trace]:
        """Store a relation whose rows exist by definition, or as accumulators, only.

        It must be possible to read it afterwards at every epoch that it could be read at before.
        So for each of `stops`, oldest first, what came since the one before is a segment.
        """
        graph = replace(relations, finished=relations.finished - {name})
        rows = sum(trace.rows for trace in traces.values())
        shape, times = relations.by_name[name].shape, relations.times(name)
        segments: list[Segment] = []
        before: DataFrame | None = None
        schema = ""
        for stop in stops:
            versions = versions_of(relations, traces, stop)
            schema = versions[name].schema
            after = Bindings(self._session, self._store, graph, versions).frame(name, Version.AFTER)
            delta = after.select(*map(quote, shape.columns), WEIGHT)
            if before is not None:
                delta = delta.unionByName(before.withColumn(WEIGHT, -before[WEIGHT]))
            before = after.select(*map(quote, shape.columns), WEIGHT)
            delta.createOrReplaceTempView("__storing")
            summed = self._session.sql(consolidate("SELECT * FROM __storing", shape.row))
            segment = self._store.materialise(name, stop, summed, rows, times)
            if segment is not None:
                segments.append(segment)
        return {**traces, name: Trace(schema, tuple(segments))} if segments else dict(traces)


class Materialization:
    """Plans what is stored, and stores what is missing.

    Args:
        env: where it works.
        ledger: what is stored.
        defined: what there is.
        time: a new view's first moment.
        scheduler: the epochs that views are at.
        full: runs queries as they are written.
        executor: is built anew where the plan changes.
        pruning: what sources keep of their rows.
        tapped: relations whose changes somebody outside wants.
    """

    def __init__(
        self,
        env: Environment,
        ledger: Ledger,
        defined: Defined,
        time: EventTime,
        scheduler: ViewScheduler,
        full: FullQueries,
        executor: CurrentExecutor,
        pruning: SourcePruning,
        tapped: Callable[[], frozenset[str]],
    ) -> None:
        self._env = env
        self._ledger = ledger
        self._defined = defined
        self._time = time
        self._scheduler = scheduler
        self._full = full
        self._executor = executor
        self._pruning = pruning
        self._tapped = tapped
        self.is_busy: Callable[[], bool] = lambda: False
        """Whether epochs are on their way now, so that nothing they stand on may change."""
        first = env.workspaces.first
        self._filler = Filler(first.session, first.store, full.run)

    def plan(self, traces: Mapping[str, Trace] | None = None) -> None:
        """Decide anew which relations are stored, and which are computed when read."""
        self._pruning.require_kept()
        self._defined.catalog.relations = self.planned(self._defined.catalog, traces)
        self._time.configure(self._defined.tables())
        self._executor.forget()

    def planned(self, catalog: Catalog, traces: Mapping[str, Trace] | None = None) -> StoragePlan:
        """Return which relations of a catalog would be stored, with what is stored now."""
        held = self._ledger.manifest.traces if traces is None else traces
        stored = frozenset(name for name, trace in held.items() if trace.segments)
        fused = self._ledger.manifest.state.fused
        return catalog.plan(
            stored=stored,
            keep_fused=fused if stored else frozenset(),
            tapped=self._tapped(),
        )

    def fill_and_commit(self, names: Iterable[str], traces: Mapping[str, Trace]) -> None:
        """Compute views that have no rows yet, in order, and commit them all at once.

        They are computed at the newest epoch that all they read have.
        """
        views, registry, scheduler = list(names), self._defined.catalog.registry, self._scheduler
        self._require_code(views)
        inputs = {each for name in views for each in registry.get_dependencies(name)}
        at = scheduler.reach(inputs - set(views))
        for name in views:
            scheduler.require(name, inputs, at)
            try:
                traces = self._filled(self._defined.catalog.programs[name], traces, at)
            except Exception as error:
                raise named_error(name, error) from error
        epoch, now = self._ledger.epoch, self._env.clock()
        with scheduler.with_progress(scheduler.progress.with_filled(views, at, epoch, now)):
            self._ledger.recommit(traces)

    def _require_code(self, views: Iterable[str]) -> None:
        """Raise if a view calls a Python function whose code is not here."""
        catalog, known = self._defined.catalog, self._env.functions.names()
        for view in views:
            for function in catalog.python_calls(catalog.definitions[view]):
                if function.lower() not in known:
                    raise FunctionNotRegistered(function)

    def _filled(
        self, program: Program, traces: Mapping[str, Trace], at: int
    ) -> Mapping[str, Trace]:
        """Return the traces with a new view's; what it reads may have to store more from now on."""
        finished = self._defined.catalog.relations.finished
        self.plan(traces)
        rows = sum(trace.rows for trace in traces.values())
        for session in (self._env.workspaces.first.session, self._full.session):
            suit(session, changed=rows, held=0)
        traces = self._with_finished(finished | self._defined.catalog.parts(program.view), traces)
        epoch_time = self._time.first(program, None if at == self._ledger.epoch else at)
        return self._filler.fill(program, self._defined.catalog.relations, traces, at, epoch_time)

    def with_rows(self, traces: Mapping[str, Trace], views: Iterable[str]) -> Mapping[str, Trace]:
        """Return the traces with rows of what views, which are to be filled, need rows of.

        Nobody needed them when these traces were written: accumulators were enough.
        """
        own = {name for view in views for name in self._defined.catalog.parts(view)}
        finished = self._defined.catalog.relations.finished
        return self._with_finished(finished & (own | set(traces)), traces)

    def finish(self, relations: Collection[str]) -> None:
        """Store the rows of groups, from now on, that were kept as accumulators only."""
        known = self._defined.catalog.relations
        lacking = {each for each in relations if each in known.by_name} - known.finished
        if lacking:
            traces = self._with_rows_of(lacking, self._ledger.manifest.traces)
            self._ledger.recommit(traces)
            self.plan()

    def tap(self) -> None:
        """Store, or store no longer, what sinks want to see the changes of."""
        finished = self._defined.catalog.relations.finished
        self.plan()
        traces = self._with_finished(finished, self._ledger.manifest.traces)
        self._ledger.recommit(traces)

    def store_followed(self) -> bool:
        """Store what subscriptions follow, unless somebody works right now; say whether."""
        with self._ledger.turn.if_free("storing what is followed") as is_mine:
            if not is_mine or self.is_busy():
                return False
            before = self._defined.catalog
            self._defined.catalog = before.copy()  # others read by the plan of before
            try:
                self.plan()
                if self._defined.catalog.relations.finished != before.relations.finished:
                    self._ledger.recommit(
                        self._with_finished(before.relations.finished, self._ledger.manifest.traces)
                    )
            except BaseException:
                self._defined.catalog = before
                raise
            return True

    def _with_finished(
        self, before: frozenset[str], traces: Mapping[str, Trace]
    ) -> Mapping[str, Trace]:
        """Return the traces with rows of all that is planned to have some and had none before."""
        return self._with_rows_of(self._defined.catalog.relations.finished - before, traces)

    def _with_rows_of(
        self, names: Iterable[str], traces: Mapping[str, Trace]
    ) -> Mapping[str, Trace]:
        for name in names:
            stops = self._scheduler.stops(view_of(name))
            traces = self._filler.store_rows(name, self._defined.catalog.relations, traces, stops)
        return traces
