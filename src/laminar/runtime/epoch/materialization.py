"""Which relations keep rows, and computing those of one that starts to.

A relation keeps rows when somebody needs them: readers, sinks, subscriptions, a definition. Who
begins to need some has them computed from what its inputs hold, in the commit that says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from laminar.delta.program import Program
from laminar.model.trace import Trace
from laminar.model.trace_name import view_of
from laminar.runtime.epoch.executor import named_error
from laminar.runtime.epoch.fill import Filler
from laminar.runtime.spark.session import suit

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog
    from laminar.runtime.catalog.storage_plan import StoragePlan
    from laminar.runtime.engine.engine import Engine


class Storing:
    """Plans what an engine stores, and stores what is missing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        workspace = engine.workspaces.first
        self._filler = Filler(workspace.session, workspace.store, engine.full.run)

    def own(self, view: str) -> frozenset[str]:
        """Return the relations that a view is kept in."""
        programs = self._engine.catalog.programs
        return frozenset(each.shape.name for each in programs[view].relations)

    def plan(self, traces: Mapping[str, Trace] | None = None) -> None:
        """Decide anew which relations are stored, and which are computed when read."""
        engine = self._engine
        engine.retention.require_kept()
        engine.catalog.relations = self.planned(engine.catalog, traces)
        engine.time.configure(engine.tables())
        engine.forget_executor()

    def planned(self, catalog: Catalog, traces: Mapping[str, Trace] | None = None) -> StoragePlan:
        """Return which relations of a catalog would be stored, with what is stored now."""
        engine = self._engine
        held = engine.manifest.traces if traces is None else traces
        stored = frozenset(name for name, trace in held.items() if trace.segments)
        fused = engine.manifest.state.fused
        return catalog.plan(
            stored=stored,
            keep_fused=fused if stored else frozenset(),
            tapped=engine.publisher.tapped() | engine.subscriptions.tapped(),
        )

    def fill_and_commit(self, names: Iterable[str], traces: Mapping[str, Trace]) -> None:
        """Compute views that have no rows yet, in order, and commit them all at once.

        They are computed at the newest epoch that all they read have.
        """
        engine, views = self._engine, list(names)
        registry, scheduler = engine.catalog.registry, engine.scheduler
        inputs = {each for name in views for each in registry.get_dependencies(name)}
        at = scheduler.reach(inputs - set(views))
        for name in views:
            scheduler.require(name, inputs, at)
            try:
                traces = self._filled(engine.catalog.programs[name], traces, at)
            except Exception as error:
                raise named_error(name, error) from error
        epoch, now = engine.manifest.epoch, engine.limits.clock()
        with scheduler.with_progress(scheduler.progress.with_filled(views, at, epoch, now)):
            engine.commit(epoch, traces, engine.manifest.offsets)

    def _filled(
        self, program: Program, traces: Mapping[str, Trace], at: int
    ) -> Mapping[str, Trace]:
        """Return the traces with a new view's; what it reads may have to store more from now on."""
        engine = self._engine
        finished = engine.catalog.relations.finished
        self.plan(traces)
        rows = sum(trace.rows for trace in traces.values())
        for session in (engine.workspaces.first.session, engine.full.session):
            suit(session, changed=rows, held=0)
        traces = self._with_finished(finished | self.own(program.view), traces)
        epoch_time = engine.time.first(program, None if at == engine.manifest.epoch else at)
        return self._filler.fill(program, engine.catalog.relations, traces, at, epoch_time)

    def with_rows(self, traces: Mapping[str, Trace], views: Iterable[str]) -> Mapping[str, Trace]:
        """Return the traces with rows of what views, which are to be filled, need rows of.

        Nobody needed them when these traces were written: accumulators were enough.
        """
        own = {name for view in views for name in self.own(view)}
        finished = self._engine.catalog.relations.finished
        return self._with_finished(finished & (own | set(traces)), traces)

    def finish(self, relations: Collection[str]) -> None:
        """Store the rows of groups, from now on, that were kept as accumulators only."""
        engine, known = self._engine, self._engine.catalog.relations
        lacking = {each for each in relations if each in known.by_name} - known.finished
        if lacking:
            traces = self._with_rows_of(lacking, engine.manifest.traces)
            engine.commit(engine.manifest.epoch, traces, engine.manifest.offsets)
            self.plan()

    def tap(self) -> None:
        """Store, or store no longer, what sinks want to see the changes of."""
        engine, finished = self._engine, self._engine.catalog.relations.finished
        self.plan()
        traces = self._with_finished(finished, engine.manifest.traces)
        engine.commit(engine.manifest.epoch, traces, engine.manifest.offsets)

    def store_followed(self) -> bool:
        """Store what subscriptions follow, unless somebody works right now; say whether."""
        engine = self._engine
        if not engine.lock.acquire(blocking=False):
            return False
        try:
            if engine.overlap.is_on:
                return False
            finished = engine.catalog.relations.finished
            self.plan()
            if engine.catalog.relations.finished != finished:
                traces = self._with_finished(finished, engine.manifest.traces)
                engine.commit(engine.manifest.epoch, traces, engine.manifest.offsets)
            return True
        finally:
            engine.lock.release()

    def _with_finished(
        self, before: frozenset[str], traces: Mapping[str, Trace]
    ) -> Mapping[str, Trace]:
        """Return the traces with rows of all that is planned to have some and had none before."""
        return self._with_rows_of(self._engine.catalog.relations.finished - before, traces)

    def _with_rows_of(
        self, names: Iterable[str], traces: Mapping[str, Trace]
    ) -> Mapping[str, Trace]:
        engine = self._engine
        for name in names:
            stops = engine.scheduler.stops(view_of(name))
            traces = self._filler.store_rows(name, engine.catalog.relations, traces, stops)
        return traces
