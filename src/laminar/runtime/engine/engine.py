"""The engine: one writer that carries all relations from epoch to epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.checkpoint.in_flight import InFlight
from laminar.checkpoint.restore import finish, numbers
from laminar.connectors.source import Source, close
from laminar.errors import OperatorError, OperatorNotFound, ReadOnlyDatabase
from laminar.model.trace import Manifest, Trace
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition, to_json
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.settings import Settings
from laminar.runtime.catalog.time_settings import TimeSettings
from laminar.runtime.engine.apply_settings import Tuning
from laminar.runtime.engine.checkpoints import Checkpoints
from laminar.runtime.engine.follow import POLL_SECONDS, as_stored, follow
from laminar.runtime.engine.open import define
from laminar.runtime.epoch.executor import DagExecutor
from laminar.runtime.epoch.full_query import FullQueries
from laminar.runtime.epoch.materialization import Storing
from laminar.runtime.epoch.pipelining import EpochPipeline
from laminar.runtime.epoch.python_operators import operator_states
from laminar.runtime.epoch.report import EpochReport
from laminar.runtime.epoch.runner import EpochRunner
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.history.compactor import Compactor
from laminar.runtime.history.snapshot import Snapshot
from laminar.runtime.history.timeline import Timeline
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.primary_keys import Upserts
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.ingest.range_reader import RangeReader
from laminar.runtime.output.changelog import DagChangelogPropagator
from laminar.runtime.output.sinks import Publisher
from laminar.runtime.output.subscriptions import Subscriptions
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.statement_cache import remove_links
from laminar.runtime.spark.workspace import Workspace, Workspaces
from laminar.store import EpochLog, LoggedEpoch, PendingLog, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        self.spark = spark
        self.workspaces = Workspaces(root, spark)
        self.store = self.workspaces.first.store
        self.full = FullQueries(Workspace.beside(root, spark))
        self.timeline = Timeline(root, read_only=read_only)
        self.lock = threading.RLock()
        """Held by whoever changes definitions or runs an epoch."""
        # What is defined, and the objects that belong to it; `define` below fills them.
        self.catalog: Catalog
        self.time: EventTime
        self.sources: dict[str, Source] = {}
        self.executor: DagExecutor | None = None
        self.operators: dict[str, Any] = {}
        # Who wants to hear of changes, and which epochs must be kept for that.
        self.changelog = DagChangelogPropagator(self)
        self.publisher = Publisher(self)
        self.subscriptions = Subscriptions(self)
        self.changelog.needs += [self.publisher.needs, self.subscriptions.needs]
        self.pins: list[Callable[[int], frozenset[int]]] = [self.changelog.pinned]
        """Each says which past epochs somebody still needs, as an epoch is committed."""
        # What the last epoch left: settings, where views stand, rows that wait.
        self.settings = Settings(self.manifest.state.get("settings"))
        self.scheduler = ViewScheduler(self)
        self.wal = EpochLog(root, read_only=read_only)
        self.pending = PendingLog(root, numbers(self.manifest))
        self.in_flight = InFlight(root, self.manifest.epoch)
        self.retention = SourcePruning(self)
        # The parts that do the work.
        self.ingest = RangeReader(
            self.workspaces.of, self.pending, self.sources, self.limits, self.retention.prefix
        )
        self.inlets = ConnectorDagBridge(self)
        self.checkpoints = Checkpoints(self)
        self.pins.append(self.checkpoints.pinned)
        aside = Workspace.beside(root, spark)
        self.compactor = Compactor(aside.session, aside.store)
        self.upserts = Upserts(self.workspaces.first.session, self.store)
        self.epochs = EpochRunner(self)
        self.overlap = EpochPipeline(self)
        self.storing = Storing(self)
        self.tuning = Tuning(self)
        define(self)
        self.show(Snapshot(self.manifest, self.catalog))
        self.retention.follow()
        if read_only:
            self.show(as_stored(self, self.manifest))
        else:
            remove_links(root)
            self.pending.keep_only(self.tables())
            self.finish_restore()

    def finish_restore(self) -> None:
        """Do what a restore has left to do, and take note of the rows that wait for epochs."""
        finish(self.manifest, self.pending, self.wal)
        self.in_flight = InFlight(self.root, self.manifest.epoch)
        epochs = [each.epoch for each in self.wal.open_after(self.manifest.epoch)]
        self.in_flight.keep_only(epochs)

    # Defining: `defining`, `replacing`, `storing`, `tuning` do the work

    def tables(self) -> dict[str, TableDefinition]:
        """Return the tables and sources."""
        return {
            name: each
            for name, each in self.catalog.definitions.items()
            if isinstance(each, TableDefinition)
        }

    @contextmanager
    def changing(self, *affected: str) -> Iterator[None]:
        """Work on a copy of the definitions; a failure leaves those that readers see.

        Args:
            affected: views whose columns may change on the way.
        """
        with self.lock:
            before = self.catalog
            self.catalog = before.copy()
            try:
                yield
            except BaseException:
                self.catalog = before
                before.declare(affected)
                self.forget_executor()
                raise

    def require_attached(self) -> None:
        """Refuse to run while an operator of Python code is missing."""
        for name, each in self.catalog.definitions.items():
            is_source = isinstance(each, TableDefinition) and each.connector == OBJECT
            detached = isinstance(each, OperatorDefinition) and name not in self.operators
            if detached or (is_source and name not in self.sources):
                raise OperatorNotFound(name)

    # Stepping: `epochs` and `overlap` do the work

    def step(self, *, whole: bool = True) -> EpochReport | None:
        """Run one epoch; None if there is nothing to do.

        Args:
            whole: over all that is pending; otherwise over what the bridges have ready.
        """
        with self.lock:
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
        if self.scheduler.has_work(self.limits.clock()):
            return True
        return self.time.is_due(self.manifest.traces, self.scheduler.held())

    def catch_up(self, views: Iterable[str], taken: Iterable[Range] = ()) -> EpochReport:
        """Run an epoch that moves some views whatever their schedule, with all that they read."""
        return self.epochs.run(list(taken), None, self.scheduler.with_inputs(views))

    def refresh(self, view: str) -> EpochReport | None:
        """Bring a view and all it reads to one new cut of the sources, whatever their schedules.

        None if it is there already.
        """
        with self.lock:
            self.require_attached()
            self.publisher.catch_up()
            taken = self.inlets.cut(whole=True)
            if not taken and self.scheduler.cursor(view) == self.manifest.epoch:
                return None
            return self.catch_up([view], taken)

    def flow(
        self, notify: Callable[[EpochReport], object], limit: int = 32, *, whole: bool = True
    ) -> bool:
        """Run up to so many epochs over what is pending; say whether there was anything to do.

        Epochs overlap where that cannot be seen from outside, see `overlap`.

        Raises:
            OperatorError: a view failed; an epoch that was committed without it has been told.
        """
        try:
            with self.lock:
                if not self.overlap.is_possible() or self.wal.open_after(self.manifest.epoch):
                    report = self.step(whole=whole)
                    if report is not None:
                        notify(report)
                    return report is not None
                self.require_attached()
                self.publisher.catch_up()
                return self.overlap.flow(notify, limit, whole=whole) > 0
        except OperatorError as error:
            if error.report is not None:
                notify(error.report)
            raise

    def _still_there(self, logged: LoggedEpoch) -> list[Range]:
        return [each for each in logged.ranges if each.table in self.catalog.definitions]

    def advance_watermark(self, name: str, watermark: int) -> None:
        """Say that a source has no more rows before a time; true from the next epoch on."""
        with self.lock:
            table = self.catalog.resolve(name)
            self.time.watermarks.advance(table, watermark)
            self.recommit()
            self.inlets.say(table, watermark)
        self.inlets.wake()

    def current_executor(self) -> DagExecutor:
        """Return what runs the DAG as it is defined now."""
        if self.executor is None:
            self.executor = DagExecutor(self.catalog.dag, on_snapshot=self.checkpoints.report)
        return self.executor

    def forget_executor(self) -> None:
        """Build the executor anew with the next epoch."""
        if self.executor is not None:
            self.executor.close()
            self.executor = None

    # Committing

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
        watermarks = self.time.watermarks.settle(epoch, self.scheduler.since)
        self.timeline.pinned = frozenset().union(*(pinned(epoch) for pinned in self.pins))
        self.timeline.commit(
            epoch,
            traces=traces,
            offsets=offsets,
            catalog=to_json(self.catalog.in_order()),
            state={
                "fused": sorted(self.catalog.relations.fused),
                "views": self.catalog.outline(),
                "operators": operator_states(self.operators),
                "settings": self.settings.given,
                "sinks": self.publisher.to_json(),
                # A new revision of an epoch is still the epoch that was run.
                "report": report or self.manifest.state.get("report"),
                **self.time.saved(),
                **self.scheduler.saved(),
            },
            watermarks=watermarks,
        )
        self.show(Snapshot(self.manifest, self.catalog))
        self.inlets.again(self.retention.follow())
        self.changelog.notify()

    def recommit(self) -> None:
        """Commit a new revision of the current epoch: something but rows has changed."""
        self.commit(self.manifest.epoch, self.manifest.traces, self.manifest.offsets)

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

    def settle(self) -> None:
        """Wait for background work, and compact until nothing is left to compact."""
        with self.lock:
            while True:
                traces = self.compactor.adopt(self.manifest.traces, wait=True)
                if traces != self.manifest.traces:
                    self.commit(self.manifest.epoch, traces, self.manifest.offsets)
                now, relations = self.manifest, self.catalog.relations
                useless = self.time.useless()
                live = self.scheduler.progress.live()
                if not self.compactor.submit(now.traces, relations, now.epoch, useless, live):
                    return

    # Reading: `reading` does the work

    @property
    def manifest(self) -> Manifest:
        """What the newest epoch holds."""
        return self.timeline.manifest

    @property
    def snapshot(self) -> Snapshot:
        """What readers see: definitions and rows that belong together."""
        if self.read_only:
            follow(self)
        return self._snapshot

    def show(self, snapshot: Snapshot) -> None:
        """Let readers see another epoch from now on."""
        self._snapshot = snapshot

    # Closing

    def close(self) -> None:
        """Stop threads and close sources; committed epochs are on disk already."""
        with self.lock:
            if self.executor is not None:
                self.executor.close()
            self.inlets.close()
            self.compactor.close()
            self.checkpoints.close()
            for source in self.sources.values():
                close(source)
            self.publisher.close()
            self.wal.close()
            if not self.read_only:
                remove_links(self.root)
