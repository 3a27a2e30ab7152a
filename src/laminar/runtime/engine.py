"""The engine: one writer that carries all relations from epoch to epoch."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.connectors import SourceSpec, create_source
from laminar.connectors.source import Source, close
from laminar.dag import DagNode
from laminar.delta.program import Merged, Program, Recomputed
from laminar.errors import ConnectorError, DuplicateName, HasDependents, OperatorNotFound
from laminar.model.trace import WEIGHT, Manifest, Trace
from laminar.mv import MvState
from laminar.runtime.catalog import Catalog
from laminar.runtime.compactor import Compactor
from laminar.runtime.definitions import (
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
    from_json,
    to_json,
)
from laminar.runtime.executor import DagExecutor, Delta, named_error
from laminar.runtime.faces import Faces, Moment
from laminar.runtime.ingest import Ingest, Prefetch, Range, pending_ranges
from laminar.runtime.maintain import Maintainer
from laminar.runtime.operators import restore, snapshots
from laminar.runtime.programs import OBJECT, Sink, applied
from laminar.runtime.relations import partial_trace
from laminar.runtime.report import EpochReport, ViewReport
from laminar.runtime.shared_pass import plan_passes
from laminar.runtime.spark import own_session
from laminar.runtime.typer import SparkTyper
from laminar.runtime.views import first_sentence
from laminar.store import ManifestStore, PendingLog, SegmentStore, discard, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RETAINED_EPOCHS = 64
"""How many past epochs can be read again, unless the setting says otherwise."""


class Engine:
    """Tables, views and their epochs under one directory."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        partitions = max(2, min(16, os.cpu_count() or 2))
        self._work = own_session(spark, partitions)
        self._full = own_session(spark, partitions)
        self._compacting = own_session(spark, partitions)
        self.store = SegmentStore(root, self._work)
        self._full_store = SegmentStore(root, self._full)
        self._manifests = ManifestStore(root)
        self._lock = threading.RLock()
        self.catalog = Catalog(SparkTyper(own_session(spark, partitions)))
        self.sources: dict[str, Source] = {}
        self.executor: DagExecutor | None = None
        self.operators: dict[str, Any] = {}
        self.sinks: list[Sink] = []
        self._sizes: dict[str, int] = {}  # partial rows that each aggregate made last
        self.manifest = self._manifests.latest() or _empty()
        self.pending = PendingLog(root, _committed(self.manifest))
        self._reader = Ingest(self._work, self.store, self.pending, self.sources)
        self._prefetch = Prefetch(self._reader)
        self._compactor = Compactor(self._compacting, SegmentStore(root, self._compacting))
        sweep(root, self._manifests.live_files())
        self._reopen()

    def _reopen(self) -> None:
        """Compile what the last manifest defines."""
        for definition in from_json(self.manifest.catalog):
            if isinstance(definition, TableDefinition):
                self._open_source(definition)
                self.catalog.add_table(definition)
            elif isinstance(definition, OperatorDefinition):
                program = Program(definition.name, (applied(definition, None),))
                self.catalog.add_view(definition, program)
            else:
                self.catalog.add_view(definition, self.catalog.compile(definition))
        for name in self.manifest.state.get("paused", ()):
            self.catalog.registry.set_state(name, MvState.PAUSED)
        self._plan_storage()

    # Definitions

    def create_table(self, definition: TableDefinition) -> None:
        """Define a table or source; it is empty."""
        with self._lock:
            self.catalog.refuse_duplicate(definition.name)
            self._open_source(definition)
            self.catalog.add_table(definition)
            self._plan_storage()
            self._commit(self.manifest.epoch, dict(self.manifest.traces), self.manifest.offsets)

    def _open_source(self, definition: TableDefinition) -> None:
        if definition.connector not in (None, OBJECT):
            spec = SourceSpec(definition.name, definition.schema, definition.options)
            self.sources[definition.name] = create_source(str(definition.connector), spec)

    def create_view(self, definition: ViewDefinition) -> None:
        """Define a view and fill it from what its inputs hold now, at the current epoch."""
        with self._lock:
            program = self.catalog.compile(definition)
            self.catalog.add_view(definition, program)
            try:
                traces = self._fill(program, self.manifest.traces)
            except Exception as error:
                self.catalog.remove(definition.name)
                self._plan_storage()
                raise named_error(definition.name, error) from error
            self._commit(self.manifest.epoch, traces, self.manifest.offsets)

    def create_operator(self, definition: OperatorDefinition, operator: Any) -> None:
        """Define a view that a Python operator maintains, and fill it."""
        with self._lock:
            self.catalog.refuse_duplicate(definition.name)
            program = Program(definition.name, (applied(definition, operator),))
            self.operators[definition.name] = operator
            self.catalog.add_view(definition, program)
            try:
                traces = self._fill(program, self.manifest.traces)
            except Exception as error:
                self.catalog.remove(definition.name)
                del self.operators[definition.name]
                self._plan_storage()
                raise named_error(definition.name, error) from error
            self._commit(self.manifest.epoch, traces, self.manifest.offsets)

    def attach_operator(self, name: str, operator: Any) -> None:
        """Give a defined operator view its operator again, with the state it last had."""
        definition = self.catalog.definitions[self.catalog.resolve(name)]
        if not isinstance(definition, OperatorDefinition):
            raise DuplicateName(name)
        with self._lock:
            self.operators[definition.name] = operator
            self.catalog.programs[definition.name] = Program(
                definition.name, (applied(definition, operator),)
            )
            restore({definition.name: operator}, self.manifest.state.get("operators", {}))
            self._plan_storage()

    def add_sink(self, sink: Sink) -> None:
        """Send the delta of a relation somewhere after each epoch."""
        with self._lock:
            self.sinks = [each for each in self.sinks if each.name != sink.name] + [sink]
            finished = self.catalog.relations.finished
            self._plan_storage()
            traces = dict(self.manifest.traces)
            for name in self.catalog.relations.finished - finished:
                traces |= self._promote(name, traces, self.manifest.epoch)
            self._commit(self.manifest.epoch, traces, self.manifest.offsets)

    def empty(self, name: str) -> DataFrame:
        """Return a frame with a relation's columns and no rows."""
        return self.store.frame(self.catalog.shape(self.catalog.resolve(name)).ddl, ())

    def _fill(self, program: Program, given: Mapping[str, Trace]) -> dict[str, Trace]:
        """Compute a new view: everything its inputs hold is one delta from nothing."""
        finished_before = self.catalog.relations.finished
        self._plan_storage()
        epoch = self.manifest.epoch
        traces = dict(given)
        own = frozenset(each.shape.name for each in program.relations)
        for name in self.catalog.relations.finished - finished_before - own:
            traces |= self._promote(name, traces, epoch)
        moments = self._moments(traces)
        flipped = {
            name: Moment(moment.schema, (), moment.before) for name, moment in moments.items()
        }
        faces = Faces(self._work, self.store, self.catalog.relations, flipped, first=own)
        maintainer = Maintainer(faces, self.store, epoch, self._run_full)
        for relation in program.relations:
            maintainer.maintain(relation)
        for name in own:
            for trace in (name, partial_trace(name)):
                if flipped.get(trace) is not None and flipped[trace].delta:
                    traces[trace] = Trace(flipped[trace].schema, flipped[trace].delta)
        return traces

    def _promote(self, name: str, traces: Mapping[str, Trace], epoch: int) -> dict[str, Trace]:
        """Store the results of groups that were kept as accumulators only."""
        relations = self.catalog.relations
        before = replace(relations, finished=relations.finished - {name})
        faces = Faces(self._work, self.store, before, self._moments(traces))
        rows = traces.get(partial_trace(name))
        segment = self.store.materialise(name, epoch, faces.content(name), rows.rows if rows else 0)
        if segment is None:
            return {}
        return {name: Trace(self._moments(traces)[name].schema, (segment,))}

    def drop(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Drop a relation and, if asked, all that reads it."""
        with self._lock:
            dependents = self.catalog.registry.all_dependents(name)
            if dependents and not cascade:
                raise HasDependents(name, dependents)
            dropped = (*reversed(dependents), name)
            for each in dropped:
                self.catalog.remove(each)
                source = self.sources.pop(each, None)
                if source is not None:
                    close(source)
            self._plan_storage()
            kept = self._moments(self.manifest.traces)
            traces = {key: value for key, value in self.manifest.traces.items() if key in kept}
            offsets = {k: v for k, v in self.manifest.offsets.items() if k not in dropped}
            self._commit(self.manifest.epoch, traces, offsets)
            return dropped

    # Pausing

    @property
    def paused(self) -> frozenset[str]:
        """Views that the user has paused."""
        return frozenset(
            view.name for view in self.catalog.registry.views() if view.state is MvState.PAUSED
        )

    def _held(self) -> frozenset[str]:
        """Paused views and all that depend on them: none may see a version the others lack."""
        registry = self.catalog.registry
        return frozenset(
            name for paused in self.paused for name in (paused, *registry.all_dependents(paused))
        )

    def pause(self, name: str) -> None:
        """Leave a view and its dependents at the epoch they have."""
        with self._lock:
            self.catalog.registry.set_state(name, MvState.PAUSED)
            self._commit(self.manifest.epoch, dict(self.manifest.traces), self.manifest.offsets)

    def resume(self, name: str) -> None:
        """Bring a paused view and its dependents to the current epoch, all or none."""
        with self._lock:
            held = self._held()
            self.catalog.registry.set_state(name, MvState.RUNNING)
            due = [
                each for each in self.catalog.registry.topo_order() if each in held - self._held()
            ]
            try:
                traces = dict(self.manifest.traces)
                for each in due:
                    own = {r.shape.name for r in self.catalog.programs[each].relations}
                    mine = own | {partial_trace(part) for part in own}
                    traces = {key: trace for key, trace in traces.items() if key not in mine}
                    traces = self._fill(self.catalog.programs[each], traces)
            except Exception as error:
                self.catalog.registry.set_state(name, MvState.PAUSED)
                raise named_error(name, error) from error
            self._commit(self.manifest.epoch, traces, self.manifest.offsets)

    def _plan_storage(self) -> None:
        stored = frozenset(name for name, trace in self.manifest.traces.items() if trace.segments)
        fused = frozenset(self.manifest.state.get("fused", ()))
        self.catalog.relations = self.catalog.plan(
            stored=stored,
            keep_fused=fused if stored else frozenset(),
            tapped=frozenset(each.relation for each in self.sinks),
        )
        if self.executor is not None:
            self.executor.close()
            self.executor = None

    # Epochs

    def step(self) -> EpochReport | None:
        """Run one epoch over all that is pending; None if nothing is."""
        with self._lock:
            self._require_attached()
            tables = self._tables()
            taken = pending_ranges(
                tables, self.sources, self.manifest.offsets, self.pending, self._prefetch
            )
            return self._epoch(taken) if taken else None

    def _require_attached(self) -> None:
        for name, each in self.catalog.definitions.items():
            is_source = isinstance(each, TableDefinition) and each.connector == OBJECT
            detached = isinstance(each, OperatorDefinition) and name not in self.operators
            if detached or (is_source and name not in self.sources):
                raise OperatorNotFound(name)

    def _tables(self) -> dict[str, TableDefinition]:
        return {
            name: each
            for name, each in self.catalog.definitions.items()
            if isinstance(each, TableDefinition)
        }

    def _epoch(self, taken: list[Range]) -> EpochReport:
        started = time.perf_counter()
        epoch = self.manifest.epoch + 1
        traces = self._compactor.adopt(self.manifest.traces)
        moments = self._moments(traces)
        rows_in = self._ingest(taken, moments, epoch)
        faces = Faces(self._work, self.store, self.catalog.relations, moments)
        maintainer = Maintainer(faces, self.store, epoch, self._run_full)
        task = EpochTask(self.catalog, faces, maintainer, self._held(), self._sizes)
        changed = {
            each.table: Delta(each.table, moments[each.table].changed_rows)
            for each in taken
            if moments[each.table].delta
        }
        try:
            self._executor().run_epoch(task, changed)
        except Exception:
            discard(self.root, (f for m in moments.values() for s in m.delta for f in s.files))
            restore(self.operators, self.manifest.state.get("operators", {}))
            self._prefetch.forget()
            raise
        self._sizes = {
            name.removesuffix(partial_trace("")): moment.changed_rows
            for name, moment in moments.items()
            if moment.delta and name.endswith(partial_trace(""))
        }
        for name, moment in moments.items():
            if moment.delta:
                traces[name] = Trace(moment.schema, (*moment.before, *moment.delta))
        offsets = {**self.manifest.offsets, **{each.table: each.end for each in taken}}
        self._commit(epoch, traces, offsets)
        for each in taken:
            if each.table not in self.sources:
                self.pending.drop_through(each.table, each.end)
        self._publish(epoch, faces)
        self._compactor.submit(self.manifest.traces, self.catalog.relations, epoch)
        duration = (time.perf_counter() - started) * 1000
        return EpochReport(epoch, rows_in, duration, task.reports)

    def _publish(self, epoch: int, faces: Faces) -> None:
        """Hand the epoch's deltas to the sinks, now that it is committed."""
        for sink in self.sinks:
            if faces.state(sink.relation).changed:
                try:
                    sink.write(epoch, faces.consolidated_delta(sink.relation))
                except Exception as error:
                    raise ConnectorError(sink.name, first_sentence(error)) from error

    def settle(self) -> None:
        """Wait for background work, and compact until nothing is left to compact."""
        with self._lock:
            while True:
                traces = self._compactor.adopt(self.manifest.traces, wait=True)
                if traces != self.manifest.traces:
                    self._commit(self.manifest.epoch, traces, self.manifest.offsets)
                if not self._compactor.submit(
                    self.manifest.traces, self.catalog.relations, self.manifest.epoch
                ):
                    return

    def _executor(self) -> DagExecutor:
        if self.executor is None:
            self.executor = DagExecutor(self.catalog.dag)
        return self.executor

    def _ingest(self, taken: list[Range], moments: dict[str, Moment], epoch: int) -> int:
        tables = self._tables()
        rows = 0
        for each in taken:
            done, segment = self._prefetch.take(each, epoch)
            if not done:
                segment = self._reader.read(each, tables[each.table], epoch)
            if segment is not None:
                moments[each.table] = replace(moments[each.table], delta=(segment,))
                rows += segment.rows
        for each in taken:
            if each.table in self.sources:
                source = self.sources[each.table]
                self._prefetch.start(tables[each.table], source, each.end, epoch + 1)
        return rows

    def _moments(self, traces: Mapping[str, Trace]) -> dict[str, Moment]:
        """Every trace that the graph may need, with what it holds."""
        found: dict[str, Moment] = {}
        for name, relation in self.catalog.relations.by_name.items():
            schemas = {name: f"{relation.shape.ddl}, {WEIGHT} BIGINT"}
            if isinstance(relation, Merged):
                schemas[partial_trace(name)] = relation.partial_ddl
            for trace, schema in schemas.items():
                stored = traces.get(trace)
                found[trace] = Moment(schema, stored.segments if stored else ())
        return found

    def _run_full(self, relation: Recomputed, sql: str, faces: Faces) -> DataFrame:
        """Run a user's own query, in a session where tables have the user's names."""
        twin = Faces(self._full, self._full_store, faces.relations, faces.moments, faces.first)
        with _FULL_LOCK:
            for name in relation.reads:
                twin.content(name).createOrReplaceTempView(f"`{name}`")
            return twin.run(sql, (relation.shape.name,))

    def _commit(self, epoch: int, traces: Mapping[str, Trace], offsets: Mapping[str, Any]) -> None:
        same = epoch == self.manifest.epoch
        manifest = Manifest(
            epoch=epoch,
            revision=self.manifest.revision + 1 if same else 0,
            traces=traces,
            offsets=offsets,
            catalog=to_json(self.catalog.definitions),
            watermarks={},
            state={
                "fused": sorted(self.catalog.relations.fused),
                "paused": sorted(self.paused),
                "operators": snapshots(self.operators),
            },
            committed_at=datetime.now(UTC).isoformat(),
        )
        self._manifests.commit(manifest)
        self.manifest = manifest
        discard(self.root, self._manifests.prune(RETAINED_EPOCHS))

    # Reading

    def faces_at(
        self, session: SparkSession, store: SegmentStore, epoch: int | None = None
    ) -> tuple[int, Faces]:
        """Return all relations as they were at an epoch (by default the newest)."""
        manifest = self.manifest if epoch is None else self._manifests.get(epoch)
        faces = Faces(session, store, self.catalog.relations, self._moments(manifest.traces))
        return manifest.epoch, faces

    def close(self) -> None:
        """Stop threads and close sources; committed epochs are on disk already."""
        with self._lock:
            if self.executor is not None:
                self.executor.close()
            self._prefetch.close()
            self._compactor.close()
            for source in self.sources.values():
                close(source)


_FULL_LOCK = threading.Lock()


class EpochTask:
    """The work of one epoch at each node."""

    def __init__(
        self,
        catalog: Catalog,
        faces: Faces,
        maintainer: Maintainer,
        held: frozenset[str],
        sizes: dict[str, int],
    ) -> None:
        self._sizes = sizes
        self._held = held
        self._catalog = catalog
        self._faces = faces
        self._maintainer = maintainer
        self.reports: dict[str, ViewReport] = {}

    def prepare(self, nodes: list[DagNode]) -> None:
        """Let aggregates over the same rows share a pass."""
        running = [
            self._catalog.programs[node.name] for node in nodes if node.name not in self._held
        ]
        first = [program.relations[0] for program in running]
        members = [each for each in first if isinstance(each, Merged)]
        if len(members) > 1:
            self._maintainer.shared |= plan_passes(members, self._faces, self._sizes)

    def run(self, node: DagNode, _inputs: list[Delta]) -> Delta | None:
        """Bring the relations of a view up to date, in order."""
        if node.name in self._held:
            return None
        started = time.perf_counter()
        program = self._catalog.programs[node.name]
        rows = 0
        for relation in program.relations:
            rows = self._maintainer.maintain(relation)
        duration = (time.perf_counter() - started) * 1000
        name = program.view
        self.reports[name] = ViewReport(name, rows, duration, program.strategy.value)
        if not self._faces.state(name).changed:
            return None
        return Delta(name, rows)

    def share(self, node: DagNode, delta: Delta) -> Delta:
        """Cache the delta of a fused view, so that its consumers do not compute it again."""
        if node.name not in self._faces.relations.fused:
            return delta  # stored: reading it again is reading a file
        self._faces.share(node.name)
        return replace(delta, release=lambda: self._faces.unshare(node.name))


def _empty() -> Manifest:
    return Manifest(0, {}, {}, [], {}, {}, "", revision=-1)


def _committed(manifest: Manifest) -> dict[str, int]:
    return {name: end for name, end in manifest.offsets.items() if isinstance(end, int)}
