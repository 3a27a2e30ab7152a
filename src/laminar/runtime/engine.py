"""The engine: one writer that carries all relations from epoch to epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.checkpoint.restore import finish, numbers
from laminar.connectors import SourceSpec, create_source
from laminar.connectors.source import Source, close
from laminar.delta.program import Applied, Program, Recomputed
from laminar.errors import OperatorError, OperatorNotFound, ReadOnlyDatabase
from laminar.model.event_time import END_OF_TIME
from laminar.model.trace import Manifest, Trace
from laminar.mv import MvState
from laminar.runtime import late
from laminar.runtime.catalog import Catalog
from laminar.runtime.changelog import DagChangelogPropagator
from laminar.runtime.checkpoints import Checkpoints
from laminar.runtime.compactor import Compactor
from laminar.runtime.defining import attach_operator
from laminar.runtime.definitions import (
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    from_json,
    to_json,
)
from laminar.runtime.epochs import Epochs
from laminar.runtime.event_time import EventTime, WatermarkRow
from laminar.runtime.executor import DagExecutor, named_error
from laminar.runtime.faces import Faces, moments_of
from laminar.runtime.filling import Filler
from laminar.runtime.following import POLL_SECONDS, as_stored, follow
from laminar.runtime.holding import Holding
from laminar.runtime.ingest import Ingest
from laminar.runtime.inlet_options import for_connector
from laminar.runtime.inlets import Inlets
from laminar.runtime.keys import Upserts
from laminar.runtime.late import LATE_ROWS
from laminar.runtime.operators import snapshots
from laminar.runtime.publishing import Publisher
from laminar.runtime.python_nodes import OBJECT, applied
from laminar.runtime.report import EpochReport
from laminar.runtime.retained import Retention
from laminar.runtime.rooms import Room
from laminar.runtime.settings import Settings
from laminar.runtime.spark import own_session, partitions, suit
from laminar.runtime.subscribing import Subscriptions
from laminar.runtime.time_settings import TimeSettings
from laminar.runtime.timeline import Timeline
from laminar.runtime.typer import SparkTyper
from laminar.runtime.visible import Visible
from laminar.store import EpochLog, LoggedEpoch, PendingLog, Range, SegmentStore

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.relations import Relations


class Engine:
    """Tables, views and their epochs under one directory."""

    def __init__(
        self,
        root: Path,
        spark: SparkSession,
        limits: TimeSettings | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.root = root
        self.read_only = read_only
        """Whether another process writes: then nothing is written here, and its epochs are read."""
        self.poll_seconds = POLL_SECONDS if read_only else None
        self.limits = limits or TimeSettings()
        self._first_limits = replace(self.limits)
        self.spark = spark
        self._rooms = [Room.of(root, own_session(spark, partitions()))]
        self.work, self.store = self._rooms[0].session, self._rooms[0].store
        self.full = own_session(spark, partitions())
        self._compacting = own_session(spark, partitions())
        self._full_store = SegmentStore(root, self.full)
        self.timeline = Timeline(root, read_only=read_only)
        self._lock = threading.RLock()
        self.catalog = Catalog(SparkTyper(own_session(spark, partitions())))
        self.time = EventTime(lambda: self.catalog, self.limits)
        self.sources: dict[str, Source] = {}
        self.executor: DagExecutor | None = None
        self.operators: dict[str, Any] = {}
        self.changelog = DagChangelogPropagator(self)
        self.publisher = Publisher(self)
        self.subscriptions = Subscriptions(self)
        self.changelog.needs += [self.publisher.needs, self.subscriptions.needs]
        self.pins: list[Callable[[int], frozenset[int]]] = [self.changelog.pinned]
        """Each says which past epochs somebody still needs, as an epoch is committed."""
        self.settings = Settings(self.manifest.state.get("settings"))
        self.holding = Holding(self)
        self.wal = EpochLog(root, read_only=read_only)
        self.pending = PendingLog(root, numbers(self.manifest))
        self.retention = Retention(self)
        self.ingest = Ingest(
            self.room, self.pending, self.sources, self.limits, self.retention.prefix
        )
        self.inlets = Inlets(self)
        self.checkpoints = Checkpoints(self)
        self.pins.append(self.checkpoints.pinned)
        self.compactor = Compactor(self._compacting, SegmentStore(root, self._compacting))
        self.upserts = Upserts(self.work, self.store)
        self.epochs = Epochs(self)
        self.filler = Filler(self.work, self.store, self.run_full)
        self._apply_settings()
        self._reopen()
        self.show(Visible(self.manifest, self.catalog))
        self.retention.follow()
        if read_only:
            self.show(as_stored(self, self.manifest))
        else:
            self.pending.keep_only(self.tables())
            finish(self.manifest, self.pending, self.wal)

    @property
    def manifest(self) -> Manifest:
        """What the newest epoch holds."""
        return self.timeline.manifest

    @property
    def visible(self) -> Visible:
        """What readers see: definitions and rows that belong together."""
        if self.read_only:
            follow(self)
        return self._visible

    def show(self, visible: Visible) -> None:
        """Let readers see another epoch from now on."""
        self._visible = visible

    def moved(self, *, defined_anew: bool) -> None:
        """Take over what another process has committed, and compile what it has defined."""
        self.settings = Settings(self.manifest.state.get("settings"))
        self.holding = Holding(self)
        self.pending = PendingLog(self.root, numbers(self.manifest))
        if defined_anew:
            self.catalog = Catalog(SparkTyper(own_session(self.spark, partitions())))
            self.time = EventTime(lambda: self.catalog, self.limits)
            self._apply_settings()
            self._reopen()
        else:
            # Whoever reads the last epoch goes on with what belongs to it.
            self.catalog = self.catalog.copy()
            self.time.restore(self.manifest)

    def _reopen(self) -> None:
        """Compile what the last manifest defines."""
        for definition in from_json(self.manifest.catalog):
            if isinstance(definition, TableDefinition):
                self.open_source(definition)
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
        self.plan_storage()
        if not self.read_only:
            self.publisher.open()

    def reload(self, manifest: Manifest) -> None:
        """Go on from another manifest, such as one that a checkpoint was restored to."""
        self.forget_executor()
        self.retention.forget()
        self.publisher.forget()
        self.timeline.adopt(manifest)
        given = {name: self.sources[name] for name in self.sources if self._is_object(name)}
        for name in [each for each in self.sources if each not in given]:
            close(self.sources.pop(name))
        programs, self.catalog = (
            self.catalog.programs,
            Catalog(SparkTyper(own_session(self.spark, partitions()))),
        )
        self.time = EventTime(lambda: self.catalog, self.limits)
        self.holding = Holding(self)
        self.pending.reload(numbers(manifest))
        finish(manifest, self.pending, self.wal)
        self._apply_settings()
        self._reopen()
        for name in list(self.operators):
            definition = self.catalog.definitions.get(name)
            if isinstance(definition, OperatorDefinition):
                part = programs[name].relations[0]
                spread = part.spread if isinstance(part, Applied) else ()
                attach_operator(self, name, self.operators[name], spread)
            else:
                del self.operators[name]
        known = self.catalog.definitions
        for name in [each for each in self.sources if each not in known]:
            del self.sources[name]
        self.plan_storage()
        self.retention.follow()
        self.show(Visible(self.manifest, self.catalog))
        self.changelog.notify()

    def _is_object(self, name: str) -> bool:
        definition = self.catalog.definitions.get(name)
        return isinstance(definition, TableDefinition) and definition.connector == OBJECT

    # Definitions

    def open_source(self, definition: TableDefinition) -> None:
        """Build a table's connector, if it names one."""
        if definition.connector not in (None, OBJECT) and not self.read_only:
            options = for_connector(definition.options)
            spec = SourceSpec(definition.name, definition.schema, options)
            self.sources[definition.name] = create_source(str(definition.connector), spec)

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
                self.forget_executor()
                raise

    def fill_and_commit(self, names: Iterable[str], traces: Mapping[str, Trace]) -> None:
        """Compute views that have no rows yet, in order, and commit them all at once.

        They are computed at the newest epoch that all they read have.
        """
        views = list(names)
        registry = self.catalog.registry
        inputs = {each for name in views for each in registry.get_dependencies(name)}
        at = self.holding.reach(inputs - set(views))
        for name in views:
            self.holding.require(name, inputs, at)
            try:
                traces = self.filled(self.catalog.programs[name], traces, at)
            except Exception as error:
                raise named_error(name, error) from error
        epoch, now = self.manifest.epoch, self.limits.clock()
        with self.holding.standing_as(self.holding.standing.with_filled(views, at, epoch, now)):
            self.commit(epoch, traces, self.manifest.offsets)

    def recommit(self) -> None:
        """Commit a new revision of the current epoch: something but rows has changed."""
        self.commit(self.manifest.epoch, self.manifest.traces, self.manifest.offsets)

    def tap(self) -> None:
        """Store, or store no longer, what sinks want to see the changes of."""
        finished = self.catalog.relations.finished
        self.plan_storage()
        traces = self._finished(finished, self.manifest.traces)
        self.commit(self.manifest.epoch, traces, self.manifest.offsets)

    def store_followed(self) -> bool:
        """Store what subscriptions follow, unless somebody works right now; say whether."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self.epochs.overlap:
                return False
            finished = self.catalog.relations.finished
            self.plan_storage()
            if self.catalog.relations.finished != finished:
                traces = self._finished(finished, self.manifest.traces)
                self.commit(self.manifest.epoch, traces, self.manifest.offsets)
            return True
        finally:
            self._lock.release()

    def empty(self, name: str) -> DataFrame:
        """Return a frame with a relation's columns and no rows."""
        return self.store.frame(self.catalog.shape(self.catalog.resolve(name)).ddl, ())

    def filled(self, program: Program, traces: Mapping[str, Trace], at: int) -> Mapping[str, Trace]:
        """Return the traces with a new view's; what it reads may have to store more from now on."""
        finished = self.catalog.relations.finished
        self.plan_storage(traces)
        rows = sum(trace.rows for trace in traces.values())
        for session in (self.work, self.full):
            suit(session, changed=rows, held=0)
        traces = self._finished(finished | self.own(program.view), traces)
        turn = self.time.first(program, None if at == self.manifest.epoch else at)
        return self.filler.fill(program, self.catalog.relations, traces, at, turn)

    def _finished(self, before: frozenset[str], traces: Mapping[str, Trace]) -> Mapping[str, Trace]:
        for name in self.catalog.relations.finished - before:
            stops = self.holding.stops(name.split("#")[0])
            traces = self.filler.store_rows(name, self.catalog.relations, traces, stops)
        return traces

    def with_rows(self, traces: Mapping[str, Trace], views: Iterable[str]) -> Mapping[str, Trace]:
        """Return the traces with rows of what views, which are to be filled, need rows of.

        Nobody needed them when these traces were written: accumulators were enough.
        """
        own = {name for view in views for name in self.own(view)}
        finished = self.catalog.relations.finished
        return self._finished(finished & (own | set(traces)), traces)

    # Event time

    def advance_watermark(self, name: str, watermark: int) -> None:
        """Say that a source has no more rows before a time; true from the next epoch on."""
        with self._lock:
            table = self.catalog.resolve(name)
            self.time.watermarks.advance(table, watermark)
            self.commit(self.manifest.epoch, self.manifest.traces, self.manifest.offsets)
            self.inlets.say(table, watermark)
        self.inlets.wake()

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

    def own(self, view: str) -> frozenset[str]:
        """Return the relations that a view is kept in."""
        return frozenset(each.shape.name for each in self.catalog.programs[view].relations)

    def plan_storage(self, traces: Mapping[str, Trace] | None = None) -> None:
        """Decide anew which relations are stored, and which are computed when read."""
        self.retention.require_kept()
        self.catalog.relations = self.planned(self.catalog, traces)
        self.time.configure(self.tables())
        self.forget_executor()

    def planned(self, catalog: Catalog, traces: Mapping[str, Trace] | None = None) -> Relations:
        """Return which relations of a catalog would be stored, with what is stored now."""
        held = self.manifest.traces if traces is None else traces
        stored = frozenset(name for name, trace in held.items() if trace.segments)
        fused = frozenset(self.manifest.state.get("fused", ()))
        return catalog.plan(
            stored=stored,
            keep_fused=fused if stored else frozenset(),
            tapped=self.publisher.tapped() | self.subscriptions.tapped(),
        )

    def finish(self, relations: Collection[str]) -> None:
        """Store the rows of groups, from now on, that were kept as accumulators only."""
        known = self.catalog.relations
        lacking = {each for each in relations if each in known.by_name} - known.finished
        if lacking:
            traces: Mapping[str, Trace] = self.manifest.traces
            for name in lacking:
                stops = self.holding.stops(name.split("#")[0])
                traces = self.filler.store_rows(name, known, traces, stops)
            self.commit(self.manifest.epoch, traces, self.manifest.offsets)
            self.plan_storage()

    @contextmanager
    def pinning(self, epoch: int) -> Iterator[None]:
        """Keep an epoch's files while the context lasts."""

        def pinned(_now: int) -> frozenset[int]:
            return frozenset({epoch})

        self.pins.append(pinned)
        try:
            yield
        finally:
            self.pins.remove(pinned)

    def forget_executor(self) -> None:
        """Build the executor anew with the next epoch."""
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
                self.forget_executor()
                self.commit(self.manifest.epoch, self.manifest.traces, self.manifest.offsets)
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
        self.timeline.retained = number("retained_epochs")
        self.compactor.fanout = number("compaction_fanout")
        while len(self._rooms) < number("epochs_in_flight"):
            self._rooms.append(Room.of(self.root, own_session(self.spark, partitions())))
        for room in self._rooms:
            room.store.collect_limit = number("collect_limit_rows")
        for name in ("future_ms", "late_rows_kept", "aging_rows"):
            given = name in self.settings.given
            setattr(self.limits, name, number(name) if given else getattr(self._first_limits, name))
        first, given = self._first_limits.idle_timeout_ms, "idle_timeout_ms" in self.settings.given
        self.limits.idle_timeout_ms = number("idle_timeout_ms") or None if given else first
        self.time.configure(self.tables())

    # Epochs

    def step(self, *, whole: bool = True) -> EpochReport | None:
        """Run one epoch; None if there is nothing to do.

        Args:
            whole: over all that is pending; otherwise over what the bridges have ready.
        """
        with self._lock:
            self.require_attached()
            self.publisher.catch_up()
            if logged := self.wal.open_after(self.manifest.epoch):
                return self.epochs.run(self._still_there(logged[0]), logged[0])
            taken = self.inlets.cut(whole=whole)
            if not taken and not self._has_more():
                self.checkpoints.idle()
                return None
            return self.epochs.run(taken)

    def _has_more(self) -> bool:
        """Whether an epoch without new rows would do something: for views behind, or by time."""
        if self.holding.has_work(self.limits.clock()):
            return True
        return self.time.is_due(self.manifest.traces, self.holding.held())

    def catch_up(self, views: Iterable[str], taken: Iterable[Range] = ()) -> EpochReport:
        """Run an epoch that moves some views whatever their schedule, with all that they read."""
        return self.epochs.run(list(taken), None, self.holding.with_inputs(views))

    def refresh(self, view: str) -> EpochReport | None:
        """Bring a view and all it reads to one new cut of the sources, whatever their schedules.

        None if it is there already.
        """
        with self._lock:
            self.require_attached()
            self.publisher.catch_up()
            taken = self.inlets.cut(whole=True)
            if not taken and self.holding.cursor(view) == self.manifest.epoch:
                return None
            return self.catch_up([view], taken)

    def flow(
        self, notify: Callable[[EpochReport], object], limit: int = 32, *, whole: bool = True
    ) -> bool:
        """Run up to so many epochs over what is pending; say whether there was anything to do.

        Epochs overlap where that cannot be seen from outside, see `Epochs.can_overlap`.

        Raises:
            OperatorError: a view failed; an epoch that was committed without it has been told.
        """
        try:
            with self._lock:
                if not self.epochs.can_overlap() or self.wal.open_after(self.manifest.epoch):
                    report = self.step(whole=whole)
                    if report is not None:
                        notify(report)
                    return report is not None
                self.require_attached()
                self.publisher.catch_up()
                return self.epochs.flow(notify, limit, whole=whole) > 0
        except OperatorError as error:
            if error.report is not None:
                notify(error.report)
            raise

    def _still_there(self, logged: LoggedEpoch) -> list[Range]:
        return [each for each in logged.ranges if each.table in self.catalog.definitions]

    def forget_log(self, through: int | None = None) -> None:
        """Let go of logged epochs, and of pushed rows, that no replay will ask for any more."""
        if through is None:
            oldest = self.manifest.epoch - self.timeline.retained + 1
            through = self.checkpoints.replay_from(oldest)
        ends: dict[str, int] = {}
        for logged in self.wal.forget_through(through):
            for each in logged.ranges:
                if each.table not in self.sources and isinstance(each.end, int):
                    ends[each.table] = max(each.end, ends.get(each.table, 0))
        for table, end in ends.items():
            self.pending.drop_through(table, end)

    def room(self, epoch: int) -> Room:
        """Return where an epoch works; two in a row never meet."""
        return self._rooms[epoch % len(self._rooms)]

    def require_attached(self) -> None:
        """Refuse to run while an operator of Python code is missing."""
        for name, each in self.catalog.definitions.items():
            is_source = isinstance(each, TableDefinition) and each.connector == OBJECT
            detached = isinstance(each, OperatorDefinition) and name not in self.operators
            if detached or (is_source and name not in self.sources):
                raise OperatorNotFound(name)

    def tables(self) -> dict[str, TableDefinition]:
        """Return the tables and sources."""
        return {
            name: each
            for name, each in self.catalog.definitions.items()
            if isinstance(each, TableDefinition)
        }

    def settle(self) -> None:
        """Wait for background work, and compact until nothing is left to compact."""
        with self._lock:
            while True:
                traces = self.compactor.adopt(self.manifest.traces, wait=True)
                if traces != self.manifest.traces:
                    self.commit(self.manifest.epoch, traces, self.manifest.offsets)
                now, relations = self.manifest, self.catalog.relations
                useless = self.time.useless()
                live = self.holding.standing.live()
                if not self.compactor.submit(now.traces, relations, now.epoch, useless, live):
                    return

    def current_executor(self) -> DagExecutor:
        """Return what runs the DAG as it is defined now."""
        if self.executor is None:
            self.executor = DagExecutor(self.catalog.dag, on_snapshot=self.checkpoints.report)
        return self.executor

    def run_full(self, relation: Recomputed, sql: str, faces: Faces) -> DataFrame:
        """Run a user's own query, in a session where tables have the user's names."""
        twin = Faces(self.full, self._full_store, faces.relations, faces.moments, faces.first)
        with _FULL_LOCK:
            for name in relation.reads:
                twin.content(name).createOrReplaceTempView(f"`{name}`")
            return twin.run(sql, (relation.shape.name,))

    def commit(
        self,
        epoch: int,
        traces: Mapping[str, Trace],
        offsets: Mapping[str, Any],
        report: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an epoch, or a new revision of the current one, durable and visible."""
        if self.read_only:
            raise ReadOnlyDatabase("a commit", str(self.root))
        watermarks = self.time.watermarks.settle(epoch, self.holding.since)
        self.timeline.pinned = frozenset().union(*(pinned(epoch) for pinned in self.pins))
        self.timeline.commit(
            epoch,
            traces=traces,
            offsets=offsets,
            catalog=to_json(self.catalog.in_order()),
            state={
                "fused": sorted(self.catalog.relations.fused),
                "views": self.catalog.outline(),
                "operators": snapshots(self.operators),
                "settings": self.settings.given,
                "sinks": self.publisher.to_json(),
                # A new revision of an epoch is still the epoch that was run.
                "report": report or self.manifest.state.get("report"),
                **self.time.saved(),
                **self.holding.saved(),
            },
            watermarks=watermarks,
        )
        self.show(Visible(self.manifest, self.catalog))
        self.inlets.again(self.retention.follow())
        self.changelog.notify()

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
        """Return all relations as they were at the newest epoch that the named ones have.

        With an epoch it is the newest up to that; the named relations and what they read must have
        been defined alike then.
        """
        visible = visible or self.visible
        manifest = visible.manifest
        if epoch is not None:
            manifest = self.timeline.at(epoch, visible.upstream(list(names)))
        relations = visible.relations_at(manifest)
        at = visible.reach(manifest, names)
        if at == manifest.epoch:
            moments = moments_of(relations, manifest.traces)
        else:
            moments = moments_of(relations, manifest.traces, at)
        return at, Faces(session, store, relations, moments)

    def history(self) -> list[Manifest]:
        """Return the epochs that are kept, oldest first."""
        return self.timeline.kept()

    def close(self) -> None:
        """Stop threads and close sources; committed epochs are on disk already."""
        with self._lock:
            if self.executor is not None:
                self.executor.close()
            self.inlets.close()
            self.compactor.close()
            self.checkpoints.close()
            for source in self.sources.values():
                close(source)
            self.publisher.close()
            self.wal.close()


_FULL_LOCK = threading.Lock()
