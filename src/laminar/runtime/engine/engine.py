"""The engine: one writer that carries all relations from epoch to epoch.

It is a composition of named parts, each built from the parts that it uses. Whoever is handed an
engine names the part that it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.connectors.source import close
from laminar.model.state import EngineState
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.defined import Defined
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.catalog.settings import Settings
from laminar.runtime.catalog.time_settings import TimeSettings
from laminar.runtime.engine.apply_settings import AppliedSettings
from laminar.runtime.engine.checkpoints import Checkpoints
from laminar.runtime.engine.closing import close_all
from laminar.runtime.engine.follow import POLL_SECONDS, Follower, as_stored
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
from laminar.runtime.history.compactor import Compactor
from laminar.runtime.history.differences import Differences
from laminar.runtime.history.ledger import Contents, Ledger
from laminar.runtime.history.snapshot import Snapshot
from laminar.runtime.history.turn import inside
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.primary_keys import Upserts
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.ingest.range_reader import RangeReader
from laminar.runtime.output.changelog import DagChangelogPropagator
from laminar.runtime.output.outputs import Outputs
from laminar.runtime.output.sinks import Publisher
from laminar.runtime.output.subscriptions import Subscriptions
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.environment import Environment
from laminar.runtime.spark.session import own_session
from laminar.runtime.spark.statement_cache import remove_links
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
    | `ledger` | commits, the log of epochs, rows that wait, the turn of whoever writes |
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
        aside = self.env.workspace()
        compactor = Compactor(aside.session, aside.store)
        self.ledger = Ledger(root, compactor, read_only=read_only)
        settings = Settings(self.ledger.manifest.state.settings)
        self.defined = Defined(Catalog(typer(spark)), settings, limits)
        self.time = EventTime(lambda: self.defined.catalog, limits)
        self.scheduler = ViewScheduler(self.defined, lambda: self.ledger.manifest, self.env.clock)
        self.outputs = self._outputs()
        self.work = self._work()
        self.applied_settings = AppliedSettings(self)
        self._connect()
        self._follower = Follower(self) if read_only else None
        define(self)
        self.show(Snapshot(self.ledger.manifest, self.defined.catalog))
        self.work.pruning.follow()
        if read_only:
            self.show(as_stored(self, self.ledger.manifest))
        else:
            self.outputs.sinks.open()
            remove_links(root)
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
        sinks = Publisher(defined, log, self.snapshot, cursors, env.root)
        poll = POLL_SECONDS if env.read_only else None
        followed = Subscriptions(defined, log, timeline, self.snapshot, env.root, poll)
        return Outputs(log, sinks, followed)

    def _work(self) -> Work:
        env, ledger, defined, time = self.env, self.ledger, self.defined, self.time
        scheduler, limits = self.scheduler, self.defined.time_settings
        pruning = SourcePruning(defined, lambda: ledger.manifest.offsets)
        reader = RangeReader(
            env.workspaces.of, ledger.pending, defined.sources, limits, pruning.prefix
        )
        inlets = ConnectorDagBridge(defined, ledger, time, pruning, reader, env.root, env.clock)
        checkpoints = Checkpoints(env, ledger, defined)
        executor = CurrentExecutor(lambda: defined.catalog.dag, checkpoints.report)
        full = FullQueries(env.workspace())
        launcher = Launcher(defined, full, executor, checkpoints)
        upserts = Upserts(env.workspaces.first.session, env.store)
        runner = EpochRunner(env, ledger, defined, time, scheduler, inlets, upserts, launcher)
        pipeline = EpochPipeline(env, ledger, defined, time, scheduler, inlets, runner, launcher)
        stored = Materialization(
            env, ledger, defined, time, scheduler, full, executor, pruning, self.outputs.tapped
        )
        return Work(reader, pruning, inlets, executor, full, runner, pipeline, stored, checkpoints)

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
        with inside(self.env.store.root, "the snapshot of an operator"):
            operators = operator_states(defined.operators)
        state = EngineState(
            fused=defined.catalog.relations.fused,
            outlines=defined.catalog.outline(),
            operators=operators,
            settings=defined.settings.given,
            sinks=tuple(self.outputs.sinks.to_json()),
            # A new revision of an epoch is still the epoch that was run.
            report=report or self.ledger.manifest.state.report,
        )
        state = self.scheduler.saved(self.time.saved(state))
        return Contents(to_json(defined.catalog.in_order()), state, watermarks)

    # Defining: the statements do the work

    @contextmanager
    def changing(self, what: str, *affected: str) -> Iterator[None]:
        """Have the turn, and work on a copy of the definitions; a failure leaves those of before.

        Args:
            what: the statement, for those who wait for it.
            affected: views whose columns may change on the way.
        """
        with self.ledger.turn(what):
            before = self.defined.catalog
            self.defined.catalog = before.copy()
            try:
                yield
            except BaseException:
                self.defined.catalog = before
                before.declare(affected)
                self.work.executor.forget()
                raise

    # Stepping: `work.runner` and `work.pipeline` do the work, the driver tells others of it

    def step(self, *, whole: bool = True) -> EpochReport | None:
        """Run one epoch; None if there is nothing to do.

        Args:
            whole: over all that is pending; otherwise over what the bridges have ready.
        """
        ledger, work = self.ledger, self.work
        with ledger.turn("a step"):
            self.defined.require_attached()
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
        with self.ledger.turn(f"REFRESH {view}"):
            self.defined.require_attached()
            taken = self.work.inlets.cut(whole=True)
            if not taken and self.scheduler.cursor(view) == self.ledger.epoch:
                return None
            return self.catch_up([view], taken)

    def flow(
        self, notify: Callable[[EpochReport], object], limit: int, *, whole: bool = True
    ) -> bool:
        """Run up to so many epochs over what is pending; say whether there was anything to do.

        Epochs overlap where that cannot be seen from outside, see `epoch.pipelining`.

        Args:
            notify: takes every report, in the turn: it only notes it.
            limit: how many epochs at most.
            whole: see `step`.

        Raises:
            OperatorError: a view failed; the epoch that was committed without it is in the error.
        """
        ledger, pipeline = self.ledger, self.work.pipeline
        with ledger.turn("epochs"):
            if not pipeline.is_possible() or ledger.wal.open_after(ledger.epoch):
                report = self.step(whole=whole)
                if report is not None:
                    notify(report)
                return report is not None
            self.defined.require_attached()
            return pipeline.flow(notify, limit, whole=whole) > 0

    def _still_there(self, logged: LoggedEpoch) -> list[Range]:
        known = self.defined.catalog.definitions
        return [each for each in logged.ranges if each.table in known]

    def advance_watermark(self, name: str, watermark: int) -> None:
        """Say that a source has no more rows before a time; true from the next epoch on."""
        with self.ledger.turn(f"a watermark of {name}"):
            table = self.defined.catalog.resolve(name)
            self.time.watermarks.advance(table, watermark)
            self.ledger.recommit()
        self.work.inlets.say(table, watermark)  # behind a poll that is on its way
        self.work.inlets.wake()

    def settle(self) -> None:
        """Wait for background work, and compact until nothing is left to compact."""
        ledger = self.ledger
        with ledger.turn("compaction"):
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
        if self._follower is not None:
            self._follower.follow()
        return self._shown

    def show(self, snapshot: Snapshot) -> None:
        """Let readers see another epoch from now on."""
        self._shown = snapshot

    # Closing

    def leave(self, names: Iterable[str]) -> list[Callable[[], object]]:
        """Part from the ways in and the connectors of tables; return what closes them.

        Whoever has the turn calls this, and what it returns when the turn is over: a connector may
        take its time.
        """
        left = list(names)
        ways = [self.work.inlets.forget(name) for name in left]
        sources = [self.defined.sources.pop(name, None) for name in left]
        return [
            *(way for way in ways if way is not None),
            *(partial(close, source) for source in sources if source is not None),
        ]

    def close(self) -> None:
        """Stop threads and close connectors; committed epochs are on disk already.

        Raises:
            WriterBusy: somebody writes for longer than the patience lasts; nothing is closed.
        """
        with self.ledger.turn("close"):
            self.ledger.turn.close()
            self.work.executor.forget()
            ways = self.leave({*self.defined.tables(), *self.defined.sources})
        ends = [self.outputs.sinks.close, *ways, self.work.checkpoints.close, self.ledger.close]
        if not self.env.read_only:
            ends.append(partial(remove_links, self.env.root))
        close_all(ends)
