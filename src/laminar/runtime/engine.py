"""The engine: one writer that carries all relations from epoch to epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.connectors import SourceSpec, create_source
from laminar.connectors.source import Source, close
from laminar.delta.program import Program, Recomputed
from laminar.errors import (
    ConnectorError,
    DuplicateName,
    HasDependents,
    NotSupported,
    OperatorNotFound,
)
from laminar.model.event_time import END_OF_TIME
from laminar.model.trace import Manifest, Trace
from laminar.mv import MvState
from laminar.runtime import late
from laminar.runtime.catalog import Catalog
from laminar.runtime.compactor import Compactor
from laminar.runtime.definitions import (
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
    from_json,
    to_json,
)
from laminar.runtime.epoch_task import EpochTask
from laminar.runtime.event_time import EventTime, WatermarkRow
from laminar.runtime.executor import DagExecutor, Delta, named_error
from laminar.runtime.faces import Faces, Moment, moments_of
from laminar.runtime.filling import Filler
from laminar.runtime.future import as_late
from laminar.runtime.ingest import Ingest, Prefetch, Range, pending_ranges
from laminar.runtime.keys import Upserts
from laminar.runtime.late import LATE_ROWS
from laminar.runtime.maintain import Maintainer
from laminar.runtime.operators import restore, snapshots
from laminar.runtime.programs import OBJECT, Sink, Spread, applied
from laminar.runtime.publishing import Publisher
from laminar.runtime.refusals import first_sentence
from laminar.runtime.relations import partial_trace, pending_trace
from laminar.runtime.report import EpochReport
from laminar.runtime.settings import Settings
from laminar.runtime.spark import own_session, partitions, suit
from laminar.runtime.time_settings import TimeSettings
from laminar.runtime.timeline import Timeline
from laminar.runtime.typer import SparkTyper
from laminar.runtime.visible import Visible
from laminar.runtime.watermarks import Turn
from laminar.store import PendingLog, SegmentStore, discard

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """Tables, views and their epochs under one directory."""

    def __init__(self, root: Path, spark: SparkSession, limits: TimeSettings | None = None) -> None:
        self.root = root
        self.limits = limits or TimeSettings()
        self._first_limits = replace(self.limits)
        self.spark = spark
        self._work = own_session(spark, partitions())
        self._full = own_session(spark, partitions())
        self._compacting = own_session(spark, partitions())
        self.store = SegmentStore(root, self._work)
        self._full_store = SegmentStore(root, self._full)
        self._timeline = Timeline(root)
        self._lock = threading.RLock()
        self.catalog = Catalog(SparkTyper(own_session(spark, partitions())))
        self.time = EventTime(lambda: self.catalog, self.limits)
        self.sources: dict[str, Source] = {}
        self.executor: DagExecutor | None = None
        self.operators: dict[str, Any] = {}
        self.sinks: list[Sink] = []
        self.publisher = Publisher(self)
        self._sizes: dict[str, int] = {}  # partial rows that each aggregate made last
        self.settings = Settings(self.manifest.state.get("settings"))
        self.held_since: dict[str, int] = dict(self.manifest.state.get("held", {}))
        self.pending = PendingLog(root, _committed(self.manifest))
        self._reader = Ingest(self._work, self.store, self.pending, self.sources, self.limits)
        self._prefetch = Prefetch(self._reader)
        self._compactor = Compactor(self._compacting, SegmentStore(root, self._compacting))
        self._upserts = Upserts(self._work, self.store)
        self._filler = Filler(self._work, self.store, self._run_full)
        self._apply_settings()
        self._reopen()
        self.visible = Visible(self.manifest, self.catalog)
        self.pending.keep_only(self._tables())

    @property
    def manifest(self) -> Manifest:
        """What the newest epoch holds."""
        return self._timeline.manifest

    def _reopen(self) -> None:
        """Compile what the last manifest defines."""
        for definition in from_json(self.manifest.catalog):
            if isinstance(definition, TableDefinition):
                self._open_source(definition)
                self.catalog.add_table(definition)
                self.time.watermarks.add(definition)
            elif isinstance(definition, LateDefinition):
                self.catalog.add_view(definition, self.catalog.late_program(definition))
            elif isinstance(definition, OperatorDefinition):
                program = Program(definition.name, (applied(definition, None),))
                self.catalog.add_view(definition, program)
            else:
                self.catalog.add_view(definition, self.catalog.compile(definition))
        for name in self.manifest.state.get("paused", ()):
            self.catalog.registry.set_state(name, MvState.PAUSED)
        self.publisher.load(self.manifest.state.get("sinks", ()))
        self.time.restore(self.manifest)
        self._plan_storage()

    # Definitions

    def create_table(self, definition: TableDefinition) -> None:
        """Define a table or source; it is empty."""
        with self._lock:
            self.catalog.refuse_duplicate(definition.name)
            self._open_source(definition)
            self.catalog.add_table(definition)
            self.time.watermarks.add(definition)
            self._plan_storage()
            self._commit(self.manifest.epoch, dict(self.manifest.traces), self.manifest.offsets)

    def _open_source(self, definition: TableDefinition) -> None:
        if definition.connector not in (None, OBJECT):
            spec = SourceSpec(definition.name, definition.schema, definition.options)
            self.sources[definition.name] = create_source(str(definition.connector), spec)

    def create_view(self, definition: ViewDefinition) -> None:
        """Define a view and fill it from what its inputs hold now, at the current epoch."""
        late_to = definition.emission.late_to
        with self.changing():
            self.catalog.refuse_duplicate(definition.name)
            if late_to is not None:
                self.catalog.refuse_duplicate(late_to)
            program = self.catalog.compile(definition)
            if late_to is not None and program.late is None:
                raise NotSupported("LATE DATA TO here", "read one relation with event time")
            self.catalog.add_view(definition, program)
            if late_to is not None:
                sink = LateDefinition(late_to, definition.name)
                self.catalog.add_view(sink, self.catalog.late_program(sink))
            self.fill_and_commit((definition.name,), self.manifest.traces)

    def create_operator(
        self, definition: OperatorDefinition, operator: Any, spread: Spread = ()
    ) -> None:
        """Define a view that a Python operator maintains, and fill it."""
        with self.changing():
            self.catalog.refuse_duplicate(definition.name)
            program = Program(definition.name, (applied(definition, operator, spread),))
            self.operators[definition.name] = operator
            self.catalog.add_view(definition, program)
            try:
                self.fill_and_commit((definition.name,), self.manifest.traces)
            except Exception:
                del self.operators[definition.name]
                raise

    @property
    def lock(self) -> threading.RLock:
        """Held by whoever changes definitions or runs an epoch."""
        return self._lock

    @contextmanager
    def changing(self, *affected: str) -> Iterator[None]:
        """Work on a copy of the definitions; a failure leaves those that readers see.

        Args:
            affected: views whose columns may change on the way.
        """
        with self._lock:
            before = self.catalog
            self.catalog = before.copy()
            try:
                yield
            except BaseException:
                self.catalog = before
                before.declare(affected)
                self._forget_executor()
                raise

    def fill_and_commit(self, names: Iterable[str], traces: Mapping[str, Trace]) -> None:
        """Compute views that have no rows yet, in order, and commit them all at once."""
        for name in names:
            try:
                traces = self._filled(self.catalog.programs[name], traces)
            except Exception as error:
                raise named_error(name, error) from error
        self._commit(self.manifest.epoch, traces, self.manifest.offsets)

    def attach_operator(self, name: str, operator: Any, spread: Spread = ()) -> None:
        """Give a defined operator view its operator again, with the state it last had."""
        definition = self.catalog.definitions[self.catalog.resolve(name)]
        if not isinstance(definition, OperatorDefinition):
            raise DuplicateName(name)
        with self._lock:
            self.operators[definition.name] = operator
            self.catalog.programs[definition.name] = Program(
                definition.name, (applied(definition, operator, spread),)
            )
            restore({definition.name: operator}, self.manifest.state.get("operators", {}))
            self._plan_storage()

    def add_sink(self, sink: Sink) -> None:
        """Send the delta of a relation somewhere after each epoch."""
        with self._lock:
            self.sinks = [each for each in self.sinks if each.name != sink.name] + [sink]
            self.tap()

    def tap(self) -> None:
        """Store, or store no longer, what sinks want to see the changes of."""
        finished = self.catalog.relations.finished
        self._plan_storage()
        traces = self._finished(finished, self.manifest.traces)
        self._commit(self.manifest.epoch, traces, self.manifest.offsets)

    def empty(self, name: str) -> DataFrame:
        """Return a frame with a relation's columns and no rows."""
        return self.store.frame(self.catalog.shape(self.catalog.resolve(name)).ddl, ())

    def _filled(self, program: Program, traces: Mapping[str, Trace]) -> Mapping[str, Trace]:
        """Return the traces with a new view's; what it reads may have to store more from now on."""
        finished = self.catalog.relations.finished
        self._plan_storage(traces)
        rows = sum(trace.rows for trace in traces.values())
        for session in (self._work, self._full):
            suit(session, changed=rows, held=0)
        traces = self._finished(finished | self._own(program.view), traces)
        turn = self.time.first(program)
        return self._filler.fill(program, self.catalog.relations, traces, self.manifest.epoch, turn)

    def _finished(self, before: frozenset[str], traces: Mapping[str, Trace]) -> Mapping[str, Trace]:
        for name in self.catalog.relations.finished - before:
            traces = self._filler.store_rows(
                name, self.catalog.relations, traces, self.manifest.epoch
            )
        return traces

    def drop(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Drop a relation and, if asked, all that reads it."""
        with self._lock:
            dependents = self.catalog.registry.all_dependents(name)
            sinks = self.publisher.of((*dependents, name))
            readers = [each for each in dependents if not self._is_late_of(each, name)]
            if (readers or sinks) and not cascade:
                raise HasDependents(name, (*readers, *sinks))
            dropped = (*reversed(dependents), name)
            for each in sinks:
                self.publisher.remove(each)
            for each in dropped:
                self.catalog.remove(each)
                self.time.forget(each)
                source = self.sources.pop(each, None)
                if source is not None:
                    close(source)
            self._plan_storage()
            kept = moments_of(self.catalog.relations, self.manifest.traces)
            traces = {
                key: value
                for key, value in self.manifest.traces.items()
                if key in kept or key == LATE_ROWS
            }
            offsets = {k: v for k, v in self.manifest.offsets.items() if k not in dropped}
            self._commit(self.manifest.epoch, traces, offsets)
            self.pending.keep_only(self._tables())
            self.publisher.forget_cursors()
            return dropped

    def _is_late_of(self, name: str, view: str) -> bool:
        """Whether a relation only takes a view's late rows, and goes with it."""
        found = self.catalog.definitions[name]
        return isinstance(found, LateDefinition) and found.view == view

    # Event time

    def advance_watermark(self, name: str, watermark: int) -> None:
        """Say that a source has no more rows before a time; true from the next epoch on."""
        with self._lock:
            self.time.watermarks.advance(self.catalog.resolve(name), watermark)
            self._commit(self.manifest.epoch, self.manifest.traces, self.manifest.offsets)

    def end_of_stream(self, name: str) -> None:
        """Say that a source has no more rows."""
        self.advance_watermark(name, END_OF_TIME)

    def watermark_rows(self) -> list[WatermarkRow]:
        """Return where event time stands at every relation that has one."""
        return self.time.rows()

    @property
    def late_counts(self) -> Mapping[str, int]:
        """View or table -> how many rows were too late, or too far in the future, for it."""
        return self.time.clocks.late

    def late_rows(self) -> pa.Table:
        """Return the late rows that are kept: epoch, relation, reason, event time and the row."""
        trace = self.manifest.traces.get(LATE_ROWS)
        return late.read_kept(self.root, trace, self.limits.late_rows_kept)

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
            traces = dict(self.manifest.traces)
            for each in self._held() & self.catalog.relations.fused:
                # It has rows by definition only, and those would move on with its inputs.
                if any(
                    part not in self._own(each) for part in self.catalog.programs[each].output.reads
                ):
                    traces = self._filler.store_rows(
                        each, self.catalog.relations, traces, self.manifest.epoch
                    )
            self._commit(self.manifest.epoch, traces, self.manifest.offsets)
            self._plan_storage()

    def _own(self, view: str) -> frozenset[str]:
        return frozenset(each.shape.name for each in self.catalog.programs[view].relations)

    def resume(self, name: str) -> None:
        """Bring a paused view and its dependents to the current epoch, all or none."""
        with self._lock:
            held = self._held()
            self.catalog.registry.set_state(name, MvState.RUNNING)
            due = [
                each for each in self.catalog.registry.topo_order() if each in held - self._held()
            ]
            try:
                traces: Mapping[str, Trace] = self.manifest.traces
                for each in due:
                    own = self._own(each)
                    mine = own | {partial_trace(part) for part in own} | {pending_trace(each)}
                    traces = {key: trace for key, trace in traces.items() if key not in mine}
                    traces = self._filled(self.catalog.programs[each], traces)
            except Exception as error:
                self.catalog.registry.set_state(name, MvState.PAUSED)
                raise named_error(name, error) from error
            self._commit(self.manifest.epoch, traces, self.manifest.offsets)
            self.publisher.catch_up()

    def _plan_storage(self, traces: Mapping[str, Trace] | None = None) -> None:
        held = self.manifest.traces if traces is None else traces
        stored = frozenset(name for name, trace in held.items() if trace.segments)
        fused = frozenset(self.manifest.state.get("fused", ()))
        self.catalog.relations = self.catalog.plan(
            stored=stored,
            keep_fused=fused if stored else frozenset(),
            tapped=frozenset(each.relation for each in self.sinks) | self.publisher.tapped(),
        )
        self._forget_executor()

    def _forget_executor(self) -> None:
        if self.executor is not None:
            self.executor.close()
            self.executor = None

    # Settings

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on, and remember them."""
        with self.changing():
            before, self.settings = self.settings, settings
            try:
                self._apply_settings()
                self._forget_executor()
                self._commit(self.manifest.epoch, self.manifest.traces, self.manifest.offsets)
            except BaseException:
                self.settings = before
                self._apply_settings()
                raise

    def setting(self, name: str) -> str:
        """Return the value that counts: what was set, or what the caller of `connect` asked for."""
        limit = getattr(self.limits, name, None)
        return self.settings.text(name) if limit is None else str(limit)

    def _apply_settings(self) -> None:
        number = self.settings.number
        self.catalog.limit_fan_out(number("max_fan_out"))
        self._timeline.retained = number("retained_epochs")
        self._compactor.fanout = number("compaction_fanout")
        self.store.collect_limit = number("collect_limit_rows")
        for name in ("future_ms", "late_rows_kept", "aging_rows"):
            given = name in self.settings.given
            setattr(self.limits, name, number(name) if given else getattr(self._first_limits, name))

    # Epochs

    def step(self) -> EpochReport | None:
        """Run one epoch over all that is pending; None if nothing is."""
        with self._lock:
            self._require_attached()
            self.publisher.catch_up()
            tables = self._tables()
            taken = pending_ranges(
                tables, self.sources, self.manifest.offsets, self.pending, self._prefetch
            )
            if not taken and not self.time.is_due(self.manifest.traces, self._held()):
                return None
            return self._epoch(taken)

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
        started_at = datetime.now(UTC)
        epoch = self.manifest.epoch + 1
        traces = self._compactor.adopt(self.manifest.traces)
        moments = moments_of(self.catalog.relations, traces)
        rows_in, too_late, largest = self._ingest(taken, moments, epoch)
        held = sum(trace.rows for trace in traces.values())
        for session in (self._work, self._full):
            suit(session, changed=rows_in, held=held)
        turn = self.time.begin(largest)
        try:
            task, faces, maintainer = self._run_nodes(moments, taken, epoch, turn)
        except Exception:
            self.time.watermarks.back()
            discard(self.root, (f for m in moments.values() for s in m.delta for f in s.files))
            self._prefetch.forget()
            raise
        moments = faces.moments
        self._sizes = {
            name.removesuffix(partial_trace("")): moment.changed_rows
            for name, moment in moments.items()
            if moment.delta and name.endswith(partial_trace(""))
        }
        for name, moment in moments.items():
            if moment.delta:
                traces[name] = Trace(moment.schema, (*moment.before, *moment.delta))
        too_late += maintainer.late.batches
        clocks = self.time.after(turn, maintainer.in_time, too_late, traces)
        late.keep(too_late, self.store, epoch, traces, self.limits.late_rows_kept)
        offsets = {**self.manifest.offsets, **{each.table: each.end for each in taken}}
        counts = {each.relation: each.count for each in too_late}
        report = EpochReport(epoch, rows_in, _since(started), task.reports, counts)
        with self.time.kept(clocks, self._held()):
            self._commit(epoch, traces, offsets, report.to_json(started_at))
        for each in taken:
            if each.table not in self.sources:
                self.pending.drop_through(each.table, each.end)
        self._publish(epoch, faces)
        if self.settings.is_on("compaction"):
            relations = self.catalog.relations
            self._compactor.submit(self.manifest.traces, relations, epoch, self.time.useless())
        return replace(report, duration_ms=_since(started))

    def _run_nodes(
        self, ingested: dict[str, Moment], taken: list[Range], epoch: int, turn: Turn
    ) -> tuple[EpochTask, Faces, Maintainer]:
        """Run all nodes; if that fails, again without rows that are there and taken back.

        A trace may hold a row and its retraction. Usually it is cheaper to compute with both than
        to find out that they cancel, but an expression may fail for a row that is gone.
        """
        try:
            return self._try_nodes(ingested, taken, epoch, turn, careful=False)
        except Exception:
            if not any(moment.has_retractions for moment in ingested.values()):
                raise
        return self._try_nodes(ingested, taken, epoch, turn, careful=True)

    def _try_nodes(
        self,
        ingested: dict[str, Moment],
        taken: list[Range],
        epoch: int,
        turn: Turn,
        *,
        careful: bool,
    ) -> tuple[EpochTask, Faces, Maintainer]:
        relations = self.catalog.relations
        faces = Faces(self._work, self.store, relations, dict(ingested), careful=careful, turn=turn)
        maintainer = Maintainer(faces, self.store, epoch, self._run_full)
        late_kept = self.limits.late_rows_kept
        task = EpochTask(self.catalog, faces, maintainer, self._held(), self._sizes, late_kept)
        changed = {
            each.table: Delta(each.table, ingested[each.table].changed_rows)
            for each in taken
            if ingested[each.table].delta
        }
        try:
            self._executor().run_epoch(
                task, changed, self.time.in_motion(turn, self.manifest.traces)
            )
        except Exception:
            kept = {f for m in ingested.values() for s in m.delta for f in s.files}
            made = {f for m in faces.moments.values() for s in m.delta for f in s.files}
            discard(self.root, made - kept)
            restore(self.operators, self.manifest.state.get("operators", {}))
            raise
        return task, faces, maintainer

    def _publish(self, epoch: int, faces: Faces) -> None:
        """Hand the epoch's deltas to the sinks, now that it is committed."""
        for sink in self.sinks:
            if faces.state(sink.relation).changed:
                try:
                    sink.write(epoch, faces.consolidated_delta(sink.relation))
                except Exception as error:
                    raise ConnectorError(sink.name, first_sentence(error)) from error
        self.publisher.publish(epoch, faces)

    def settle(self) -> None:
        """Wait for background work, and compact until nothing is left to compact."""
        with self._lock:
            while True:
                traces = self._compactor.adopt(self.manifest.traces, wait=True)
                if traces != self.manifest.traces:
                    self._commit(self.manifest.epoch, traces, self.manifest.offsets)
                now, relations = self.manifest, self.catalog.relations
                useless = self.time.useless()
                if not self._compactor.submit(now.traces, relations, now.epoch, useless):
                    return

    def _executor(self) -> DagExecutor:
        if self.executor is None:
            self.executor = DagExecutor(self.catalog.dag)
        return self.executor

    def _ingest(
        self, taken: list[Range], moments: dict[str, Moment], epoch: int
    ) -> tuple[int, list[late.LateBatch], dict[str, Mapping[str, int]]]:
        """Read all ranges.

        Return how many rows there are, those too far in the future, and how far in time each part
        of each table has come.
        """
        tables = self._tables()
        rows = 0
        ahead: list[late.LateBatch] = []
        largest: dict[str, Mapping[str, int]] = {}
        for each in taken:
            table = tables[each.table]
            done = self._prefetch.take(each, epoch) or self._reader.read(each, table, epoch)
            segment = done.segment
            if segment is not None:
                rows += segment.rows
                segment = self._upserts.resolve(table, segment, moments[each.table].before, epoch)
            if segment is not None:
                moments[each.table] = replace(moments[each.table], delta=(segment,))
            if done.largest:
                largest[each.table] = done.largest
            if done.ahead is not None and table.event_time is not None:
                kept = self.limits.late_rows_kept
                ahead.append(as_late(each.table, table.event_time, done.ahead, epoch, kept))
        for each in taken:
            if each.table in self.sources:
                source = self.sources[each.table]
                self._prefetch.start(tables[each.table], source, each.end, epoch + 1)
        return rows, ahead, largest

    def _run_full(self, relation: Recomputed, sql: str, faces: Faces) -> DataFrame:
        """Run a user's own query, in a session where tables have the user's names."""
        twin = Faces(self._full, self._full_store, faces.relations, faces.moments, faces.first)
        with _FULL_LOCK:
            for name in relation.reads:
                twin.content(name).createOrReplaceTempView(f"`{name}`")
            return twin.run(sql, (relation.shape.name,))

    def _commit(
        self,
        epoch: int,
        traces: Mapping[str, Trace],
        offsets: Mapping[str, Any],
        report: Mapping[str, Any] | None = None,
    ) -> None:
        self.held_since = {name: self.held_since.get(name, epoch) for name in self._held()}
        self._timeline.pinned = self.publisher.pinned(epoch)
        self._timeline.commit(
            epoch,
            traces=traces,
            offsets=offsets,
            catalog=to_json(self.catalog.in_order()),
            state={
                "fused": sorted(self.catalog.relations.fused),
                "paused": sorted(self.paused),
                "held": self.held_since,
                "operators": snapshots(self.operators),
                "settings": self.settings.given,
                "sinks": self.publisher.to_json(),
                # A new revision of an epoch is still the epoch that was run.
                "report": report or self.manifest.state.get("report"),
                **self.time.saved(),
            },
            watermarks=self.time.watermarks.settle(self._held()),
        )
        self.visible = Visible(self.manifest, self.catalog)

    # Reading

    def faces_at(
        self,
        session: SparkSession,
        store: SegmentStore,
        epoch: int | None = None,
        names: Iterable[str] = (),
        *,
        visible: Visible | None = None,
    ) -> tuple[int, Faces]:
        """Return all relations as they were at an epoch (by default the newest).

        For an older epoch, the named relations and what they read must have been defined alike.
        """
        visible = visible or self.visible
        manifest = visible.manifest
        if epoch is not None:
            manifest = self._timeline.at(epoch, visible.upstream(list(names)))
        relations = visible.relations_at(manifest)
        moments = moments_of(relations, manifest.traces)
        return manifest.epoch, Faces(session, store, relations, moments)

    def history(self) -> list[Manifest]:
        """Return the epochs that are kept, oldest first."""
        return self._timeline.kept()

    def close(self) -> None:
        """Stop threads and close sources; committed epochs are on disk already."""
        with self._lock:
            if self.executor is not None:
                self.executor.close()
            self._prefetch.close()
            self._compactor.close()
            for source in self.sources.values():
                close(source)
            self.publisher.close()


_FULL_LOCK = threading.Lock()


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _committed(manifest: Manifest) -> dict[str, int]:
    return {name: end for name, end in manifest.offsets.items() if isinstance(end, int)}
