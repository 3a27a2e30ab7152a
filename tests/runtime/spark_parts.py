"""Parts that run statements, over a folder and the shared Spark; no engine is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from laminar.dag import CheckpointBarrier
from laminar.model.ids import NodeId
from laminar.model.state import EngineState
from laminar.model.trace import ARRIVAL, WEIGHT, Trace
from laminar.mv import MvState
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.catalog.settings import Settings, TimeSettings
from laminar.runtime.epoch.attempt import Launcher
from laminar.runtime.epoch.executor import CurrentExecutor
from laminar.runtime.epoch.full_query import FullQueries
from laminar.runtime.epoch.outcome import Outcome, told_of
from laminar.runtime.epoch.view_executor import MvPipelineExecutor, PassedOver
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.history.compactor import Compactor
from laminar.runtime.history.ledger import Contents, Ledger
from laminar.runtime.history.timeline import Snapshot
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import versions_of
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.typer import SparkTyper
from laminar.runtime.spark.workspace import Environment, Workspaces
from laminar.testing import ManualClock

from .parts import START, catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.checkpoint.in_flight import Delivered

Row = tuple[Any, ...]

_ARROW = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}


class NoBarriers:
    """Checkpoints that are never taken."""

    def enter(self, _epoch: int) -> CheckpointBarrier | None:
        return None

    def report(self, barrier: CheckpointBarrier, node: NodeId) -> None: ...

    def withdrawn(self, epoch: int) -> None: ...

    def took(self, epoch: int, delivered: list[Delivered]) -> None: ...

    def committed(self) -> None: ...

    def replay_from(self, oldest_retained: int) -> int:
        return oldest_retained


class SparkParts:
    """What carries views from epoch to epoch, wired as an engine does; tables are given rows.

    Args:
        root: the folder.
        spark: the shared session.
        script: the definitions; nothing is stored yet.
        tapped: relations whose changes somebody outside wants.
    """

    def __init__(
        self, root: Path, spark: SparkSession, script: str, tapped: Collection[str] = ()
    ) -> None:
        self.clock = ManualClock(START)
        limits = TimeSettings(self.clock)
        self.env = Environment(root, spark, Workspaces(root, spark), self.clock)
        compiled = catalog(script, typer=SparkTyper.beside(spark), tapped=tapped)
        self.defined = Defined(compiled, Settings(), limits)
        aside = self.env.workspace()
        self.ledger = Ledger(root, Compactor(aside.session, aside.store))
        self.ledger.describe = lambda *_: self._contents()
        self.time = EventTime(lambda: self.defined.catalog, limits)
        for each in self.defined.tables().values():
            self.time.watermarks.add(each)
        self.scheduler = ViewScheduler(self.defined, lambda: self.ledger.manifest, self.clock)
        self.executor = CurrentExecutor(lambda: self.defined.catalog.dag, lambda *_: None)
        self.full = FullQueries(self.env.workspace())
        launcher = Launcher(self.defined, self.full, self.executor, NoBarriers())
        self.views = MvPipelineExecutor(self.env, self.defined, self.time, launcher, dict)
        self._given: dict[str, list[tuple[int, list[Row]]]] = {}
        self.ledger.commit(0, {}, {})

    def close(self) -> None:
        """End all threads."""
        self.executor.forget()
        self.ledger.close()

    def _contents(self) -> Contents:
        found = self.defined.catalog
        state = self.scheduler.saved(EngineState(fused=found.relations.fused))
        return Contents(to_json(found.in_order()), state, {})

    # What a test does

    def step(self, **changes: Iterable[Row]) -> Outcome:
        """Commit an epoch over changes of tables: the values of a row, and how often it comes.

        Views that fail stay where they are; the outcome has their errors.
        """
        scheduler, epoch, now = self.scheduler, self.ledger.epoch + 1, self.clock()
        traces = self._with_rows(epoch, changes)
        epoch_time, workspace = self.time.begin({}, now), self.env.workspaces.of(epoch)
        told: dict[str, str] = {}
        while True:
            plan = scheduler.plan(now, (), told)
            try:
                outcome = self.views.run(plan, traces, epoch_time, workspace, {})
                break
            except PassedOver as found:
                told |= {view: told_of(each) for view, each in found.outcome.failures.items()}
        told |= {view: told_of(error) for view, error in outcome.failures.items()}
        progress = scheduler.after(plan, outcome.fallen, scheduler.failed(told, now), now)
        with scheduler.with_progress(progress):
            self.ledger.commit(epoch, outcome.traces, {})
        return outcome

    def _with_rows(self, epoch: int, changes: dict[str, Iterable[Row]]) -> dict[str, Trace]:
        traces = dict(self.ledger.manifest.traces)
        for table, given in changes.items():
            definition, rows = self.defined.tables()[table], list(given)
            self._given.setdefault(table, []).append((epoch, rows))
            segment = self.env.store.write_arrow(table, epoch, _arrow(definition, rows))
            if segment is not None:
                held = traces.get(table, Trace(definition.shape.numbered))
                traces[table] = held.append(segment)
        return traces

    def pause(self, view: str) -> None:
        """Let a view stay where it is."""
        self.defined.catalog.registry.set_state(view, MvState.PAUSED)

    def resume(self, view: str) -> None:
        """Let a view go on."""
        self.defined.catalog.registry.set_state(view, MvState.RUNNING)

    # What a test asks

    def snapshot(self) -> Snapshot:
        """Return what readers see."""
        return Snapshot(self.ledger.manifest, self.defined.catalog)

    def bindings(self, at: int | None = None) -> Bindings:
        """Return all relations as they are, or were at an epoch."""
        first, relations = self.env.workspaces.first, self.defined.catalog.relations
        versions = versions_of(relations, self.ledger.manifest.traces, at)
        return Bindings(first.session, first.store, relations, versions)

    def rows(self, relation: str, at: int | None = None) -> list[Row]:
        """Return the rows of a relation."""
        return _sorted(self.bindings(at).content(relation).collect())

    def truth(self, query: str, at: int | None = None) -> list[Row]:
        """Run a query over the rows that tables were given."""
        self._bind_tables(at)
        return _sorted(self.full.session.sql(query).collect())

    def compared(self, queries: Mapping[str, str]) -> dict[str, tuple[list[str], list[str]]]:
        """Return the rows of views, and those of their queries, in two jobs for all of them."""
        self._bind_tables(None)
        bindings, session = self.bindings(), self.full.session
        stored = _told({view: bindings.content(view) for view in queries})
        truth = _told({view: session.sql(query) for view, query in queries.items()})
        return {view: (stored.get(view, []), truth.get(view, [])) for view in queries}

    def _bind_tables(self, at: int | None) -> None:
        for name, each in self.defined.tables().items():
            counts = Counter[Row]()
            for epoch, rows in self._given.get(name, ()):
                if at is None or epoch <= at:
                    counts.update({row[:-1]: row[-1] for row in rows})
            live = [row for row, count in counts.items() for _ in range(count)]
            self.full.session.createDataFrame(live, each.shape.ddl).createOrReplaceTempView(name)


def _told(frames: Mapping[str, DataFrame]) -> dict[str, list[str]]:
    """Return the rows of several frames as texts, by one job."""
    row = "TO_JSON(STRUCT(*), MAP('ignoreNullFields', 'false')) AS row"
    parts = [frame.selectExpr(f"'{name}' AS of", row) for name, frame in frames.items()]
    found: dict[str, list[str]] = {}
    for name, text in reduce(lambda a, b: a.unionAll(b), parts).collect():
        found.setdefault(name, []).append(text)
    return {name: sorted(rows) for name, rows in found.items()}


def _sorted(rows: Iterable[Any]) -> list[Row]:
    return sorted((tuple(row) for row in rows), key=repr)


def _arrow(definition: Any, rows: list[Row]) -> pa.Table:
    """Return rows as a segment has them; the last value of each is its weight."""
    columns = {
        name: pa.array([row[place] for row in rows], _ARROW[kind])
        for place, (name, kind, _) in enumerate(definition.columns)
    }
    columns[ARRIVAL] = pa.array([None] * len(rows), pa.int64())
    columns[WEIGHT] = pa.array([row[-1] for row in rows], pa.int64())
    return pa.table(columns)
