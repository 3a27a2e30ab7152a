"""The engine: one writer that carries all relations from epoch to epoch.

It is a composition of named parts, each built from the parts that it uses. Whoever is handed an
engine names the part that it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.connectors.source import close
from laminar.errors import OperatorError
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.defined import Defined
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.catalog.settings import Settings
from laminar.runtime.catalog.time_settings import TimeSettings
from laminar.runtime.engine.apply_settings import AppliedSettings
from laminar.runtime.engine.checkpoints import Checkpoints
from laminar.runtime.engine.follow import POLL_SECONDS, as_stored, follow
from laminar.runtime.engine.open import define, typer
from laminar.runtime.engine.work import Work
from laminar.runtime.epoch.attempt import Launcher
from laminar.runtime.epoch.executor import CurrentExecutor
from laminar.runtime.epoch.full_query import FullQueries
from laminar.runtime.epoch.materialization import Materialization
from laminar.runtime.epoch.pipelining import EpochPipeline
from laminar.runtime.epoch.python_operators import operator_states
from laminar.runtime.epoch.report import EpochReport
from laminar.runtime.epoch.runner import EpochRunner
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.history.differences import Differences
from laminar.runtime.history.ledger import Contents, Ledger
from laminar.runtime.history.snapshot import Snapshot
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.primary_keys import Upserts
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.output.changelog import DagChangelogPropagator
from laminar.runtime.output.outputs import Outputs
from laminar.runtime.output.sinks import Publisher
from laminar.runtime.output.subscriptions import Subscriptions
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.environment import Environment
from laminar.runtime.spark.session import own_session
from laminar.runtime.spark.statement_cache import remove_ports
from laminar.runtime.spark.workspace import Workspaces
from laminar.store import LoggedEpoch, Range, SegmentStore
from laminar.store.cursors import CursorStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Engine:
    """Tables, views and their epochs under one directory.

    | part | holds |
    |---|---|
    | `env` | folder, Spark, workspaces, clock: what never changes while it is open |
    | `defined` | catalog, settings, connectors, operators: what a statement changes |
    | `ledger` | commits, the log of epochs, rows that wait, the lock of whoever writes |
    | `time`, `scheduler` | where event time stands, and where every view does |
    | `outputs` | the log of changes, sinks, subscriptions |
    | `work` | intake, epochs, what is stored, checkpoints |
    """

    def __init__(
        self,
        root: Path,
        spark: SparkSession,
        time_settings: TimeSettings | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        limits = time_settings or TimeSettings()
        self.env = Environment(root, spark, Workspaces(root, spark), limits.clock, read_only)
        self.ledger = Ledger(self.env)
        settings = Settings(self.ledger.manifest.state.get("settings"))
        self.defined = Defined(Catalog(typer(spark)), settings, limits)
        self.time = EventTime(lambda: self.defined.catalog, limits)
        self.scheduler = ViewScheduler(self.defined, lambda: self.ledger.manifest, self.env.clock)
        self.outputs = self._outputs()
        self.work = self._work()
        self.applied_settings = AppliedSettings(self)
        self._connect()
        define(self)
        self.show(Snapshot(self.ledger.manifest, self.defined.catalog))
        self.work.pruning.follow()
        if read_only:
            self.show(as_stored(self, self.ledger.manifest))
        else:
            remove_ports(root)
            self.ledger.pending.keep_only(self.defined.tables())
            self.ledger.finish_restore()

    def _outputs(self) -> Outputs:
        env, defined, timeline = self.env, self.defined, self.ledger.timeline
        session = own_session(env.spark, 2)
        between = Differences(
            timeline,
            self.snapshot,
            lambda: defined.settings.number("collect_limit_rows"),
            session,
            SegmentStore(env.root, session),
        )
        log = DagChangelogPropagator(timeline, self.scheduler, between)
        cursors = CursorStore(env.root, cached=not env.read_only)
        sinks = Publisher(defined, log, self.snapshot, lambda: self.scheduler.since, cursors)
        poll = POLL_SECONDS if env.read_only else None
        followed = Subscriptions(defined, log, timeline, self.snapshot, env.root, poll)
        return Outputs(log, sinks, followed)

    def _work(self) -> Work:
        env, ledger, defined, time = self.env, self.ledger, self.defined, self.time
        scheduler = self.scheduler
        pruning = SourcePruning(defined, lambda: ledger.manifest.offsets)
        inlets = ConnectorDagBridge(
            defined, ledger, time, pruning, env.store, env.workspaces.of, env.clock
        )
        checkpoints = Checkpoints(env, ledger, defined)
        executor = CurrentExecutor(lambda: defined.catalog.dag, checkpoints.report)
        full = FullQueries(env.workspace())
        launcher = Launcher(defined, full, executor, checkpoints)
        upserts = Upserts(env.workspaces.first.session, env.store)
        publish = self.outputs.sinks.publish
        runner = EpochRunner(
            env, ledger, defined, time, scheduler, inlets, upserts, launcher, publish
        )
        pipeline = EpochPipeline(env, ledger, defined, time, scheduler, inlets, runner, launcher)
        stored = Materialization(
            env, ledger, defined, time, scheduler, full, executor, pruning, self.outputs.tapped
        )
        return Work(pruning, inlets, executor, full, runner, pipeline, stored, checkpoints)

    def _connect(self) -> None:
        """Let parts hear of each other where one does not hold the other."""
        outputs, work, ledger = self.outputs, self.work, self.ledger
        outputs.changelog.needs += [outputs.sinks.needs, outputs.subscriptions.needs]
        work.inlets.on_running = outputs.changelog.live
        work.materialization.is_busy = lambda: work.pipeline.is_on
        if not self.env.read_only:
            outputs.subscriptions.store_followed = work.materialization.store_followed
        ledger.pins += [outputs.changelog.pinned, work.checkpoints.pinned]
        ledger.describe = self._contents
        ledger.on_commit += [
            lambda: self.show(Snapshot(ledger.manifest, self.defined.catalog)),
            lambda: work.inlets.again(work.pruning.follow()),
            outputs.changelog.notify,
        ]

    def _contents(self, epoch: int, report: Mapping[str, Any] | None) -> Contents:
        """Gather what every part wants to find again in a manifest."""
        watermarks = self.time.watermarks.settle(epoch, self.scheduler.since)
        defined = self.defined
        state = {
            "fused": sorted(defined.catalog.relations.fused),
            "views": defined.catalog.outline(),
            "operators": operator_states(defined.operators),
            "settings": defined.settings.given,
            "sinks": self.outputs.sinks.to_json(),
            # A new revision of an epoch is still the epoch that was run.
            "report": report or self.ledger.manifest.state.get("report"),
            **self.time.saved(),
            **self.scheduler.saved(),
        }
        return Contents(to_json(defined.catalog.in_order()), state, watermarks)

    # Defining: the statements do the work

    @contextmanager
    def changing(self, *affected: str) -> Iterator[None]:
        """Work on a copy of the definitions; a failure leaves those that readers see.

        Args:
            affected: views whose columns may change on the way.
        """
        with self.ledger.lock:
            before = self.defined.catalog
            self.defined.catalog = before.copy()
            try:
                yield
            except BaseException:
                self.defined.catalog = before
                before.declare(affected)
                self.work.executor.forget()
                raise

    # Stepping: `work.runner` and `work.pipeline` do the work

    def step(self, *, whole: bool = True) -> EpochReport | None:
        """Run one epoch; None if there is nothing to do.

        Args:
            whole: over all that is pending; otherwise over what the bridges have ready.
        """
        ledger, work = self.ledger, self.work
        with ledger.lock:
            self.defined.require_attached()
            self.outputs.sinks.catch_up()
            if logged := ledger.wal.open_after(ledger.epoch):
                return work.runner.run(self._still_there(logged[0]), logged[0])
            taken = work.inlets.cut(whole=whole)
            if not taken and not self._has_more():
                work.checkpoints.idle()
                return None
            return work.runner.run(taken)

    def _has_more(self) -> bool:
        """Whether an epoch without new rows would do something: for views behind, or by time."""
        if self.scheduler.has_work(self.env.clock()):
            return True
        return self.time.is_due(self.ledger.manifest.traces, self.scheduler.held())

    def catch_up(self, views: Iterable[str], taken: Iterable[Range] = ()) -> EpochReport:
        """Run an epoch that moves some views whatever their schedule, with all that they read."""
        return self.work.runner.run(list(taken), None, self.scheduler.with_inputs(views))

    def refresh(self, view: str) -> EpochReport | None:
        """Bring a view and all it reads to one new cut of the sources, whatever their schedules.

        None if it is there already.
        """
        with self.ledger.lock:
            self.defined.require_attached()
            self.outputs.sinks.catch_up()
            taken = self.work.inlets.cut(whole=True)
            if not taken and self.scheduler.cursor(view) == self.ledger.epoch:
                return None
            return self.catch_up([view], taken)

    def flow(
        self, notify: Callable[[EpochReport], object], limit: int = 32, *, whole: bool = True
    ) -> bool:
        """Run up to so many epochs over what is pending; say whether there was anything to do.

        Epochs overlap where that cannot be seen from outside, see `epoch.pipelining`.

        Raises:
            OperatorError: a view failed; an epoch that was committed without it has been told.
        """
        ledger, pipeline = self.ledger, self.work.pipeline
        try:
            with ledger.lock:
                if not pipeline.is_possible() or ledger.wal.open_after(ledger.epoch):
                    report = self.step(whole=whole)
                    if report is not None:
                        notify(report)
                    return report is not None
                self.defined.require_attached()
                self.outputs.sinks.catch_up()
                return pipeline.flow(notify, limit, whole=whole) > 0
        except OperatorError as error:
            if error.report is not None:
                notify(error.report)
            raise

    def _still_there(self, logged: LoggedEpoch) -> list[Range]:
        known = self.defined.catalog.definitions
        return [each for each in logged.ranges if each.table in known]

    def advance_watermark(self, name: str, watermark: int) -> None:
        """Say that a source has no more rows before a time; true from the next epoch on."""
        with self.ledger.lock:
            table = self.defined.catalog.resolve(name)
            self.time.watermarks.advance(table, watermark)
            self.ledger.recommit()
            self.work.inlets.say(table, watermark)
        self.work.inlets.wake()

    def settle(self) -> None:
        """Wait for background work, and compact until nothing is left to compact."""
        ledger = self.ledger
        with ledger.lock:
            while True:
                traces = ledger.compactor.adopt(ledger.manifest.traces, wait=True)
                if traces != ledger.manifest.traces:
                    ledger.recommit(traces)
                now, relations = ledger.manifest, self.defined.catalog.relations
                useless = self.time.useless()
                live = self.scheduler.progress.live()
                if not ledger.compactor.submit(now.traces, relations, now.epoch, useless, live):
                    return

    # Reading: `statements.query` does the work

    def snapshot(self) -> Snapshot:
        """Return what readers see: definitions and rows that belong together.

        A reader beside another process looks on disk first, and moves to what it finds there.
        """
        if self.env.read_only:
            follow(self)
        return self._shown

    def show(self, snapshot: Snapshot) -> None:
        """Let readers see another epoch from now on."""
        self._shown = snapshot

    # Closing

    def close(self) -> None:
        """Stop threads and close sources; committed epochs are on disk already."""
        with self.ledger.lock:
            self.work.executor.forget()
            self.work.inlets.close()
            self.ledger.compactor.close()
            self.work.checkpoints.close()
            for source in self.defined.sources.values():
                close(source)
            self.outputs.sinks.close()
            self.ledger.wal.close()
            if not self.env.read_only:
                remove_ports(self.env.root)
