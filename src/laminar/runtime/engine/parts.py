"""The parts of an engine, each built from the parts that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.model.state import EngineState
from laminar.runtime.catalog.catalog import Catalog, Defined
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.catalog.settings import Settings, TimeSettings
from laminar.runtime.engine.checkpoints import Checkpoints
from laminar.runtime.engine.work import Work
from laminar.runtime.epoch.attempt import Launcher
from laminar.runtime.epoch.delivered_rows import DeliveredRows
from laminar.runtime.epoch.executor import CurrentExecutor
from laminar.runtime.epoch.full_query import FullQueries
from laminar.runtime.epoch.materialization import Materialization
from laminar.runtime.epoch.pipelining import EpochPipeline
from laminar.runtime.epoch.python_operators import operator_states
from laminar.runtime.epoch.runner import EpochRunner
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.history.compactor import Compactor
from laminar.runtime.history.differences import Differences
from laminar.runtime.history.ledger import INTERRUPTS, Contents, Ledger
from laminar.runtime.history.timeline import Snapshot, Timeline
from laminar.runtime.history.turn import inside
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.output.changelog import DagChangelogPropagator
from laminar.runtime.output.outputs import Outputs
from laminar.runtime.output.sinks import Publisher
from laminar.runtime.output.subscriptions import Subscriptions
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.lifeline import Lifeline
from laminar.runtime.spark.session import base_session, fixed_settings, own_session, renew
from laminar.runtime.spark.session_functions import PythonFunctions
from laminar.runtime.spark.typer import SparkTyper
from laminar.runtime.spark.workspace import Environment, Workspaces, store_in
from laminar.store.cursors import CursorStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POLL_SECONDS = 0.2
"""How often a reader that waits for an epoch of another process looks whether there is one."""


class Parts:
    """What a database consists of while it is open.

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
        timeline = Timeline(root, read_only=read_only)
        lifeline = Lifeline(spark)
        spark = base_session(spark, timeline.manifest.state.spark)
        functions = PythonFunctions()
        workspaces = Workspaces(root, spark, functions)
        self.env = Environment(
            root, spark, workspaces, limits.clock, read_only, functions, lifeline
        )
        aside = self.env.workspace()
        compactor = Compactor(aside.session, aside.store)
        compactor.outlast = lifeline.outlast
        self.ledger = Ledger(root, compactor, timeline, read_only=read_only)
        settings = Settings(self.ledger.manifest.state.settings)
        self.defined = Defined(Catalog(SparkTyper.beside(spark)), settings, limits)
        self.time = EventTime(lambda: self.defined.catalog, limits)
        self.scheduler = ViewScheduler(
            self.defined, lambda: self.ledger.manifest, self.env.clock, functions.names
        )
        self.look: Callable[[], object] = lambda: None
        """Called before each read: a reader beside another process moves to what it finds."""
        self.outputs = self._outputs()
        self.work = self._work()
        self._connect()

    def _outputs(self) -> Outputs:
        env, defined, timeline = self.env, self.defined, self.ledger.timeline
        log = DagChangelogPropagator(timeline, self.scheduler, self._differences())
        cursors = CursorStore(env.root, cached=not env.read_only)
        sinks = Publisher(
            defined, log, self.snapshot, cursors, lambda: self._differences(), wall=env.clock
        )
        poll = POLL_SECONDS if env.read_only else None
        followed = Subscriptions(defined, log, timeline, self.snapshot, env.root, poll)
        return Outputs(log, sinks, followed)

    def _differences(self) -> Differences:
        """Return what works out changes in a session of its own."""
        env, defined = self.env, self.defined
        session = own_session(env.spark, 2)
        env.functions.adopt(session)
        return Differences(
            self.ledger.timeline,
            self.snapshot,
            lambda: defined.settings.number("collect_limit_rows"),
            session,
            store_in(session, env.root),
        )

    def _work(self) -> Work:
        env, ledger, defined, time = self.env, self.ledger, self.defined, self.time
        scheduler = self.scheduler
        pruning = SourcePruning(defined, lambda: ledger.manifest.offsets)
        inlets = ConnectorDagBridge(
            defined, ledger, time, pruning, env.store, env.workspaces.of, env.clock
        )
        checkpoints = Checkpoints(env, ledger, defined)
        executor = CurrentExecutor(lambda: defined.catalog.dag, checkpoints.report, env.lifeline)
        full = FullQueries(env.workspace())
        launcher = Launcher(defined, full, executor, checkpoints)
        delivered = DeliveredRows(env.workspaces.first.session, env.store)
        runner = EpochRunner(env, ledger, defined, time, scheduler, inlets, delivered, launcher)
        pipeline = EpochPipeline(env, ledger, defined, time, scheduler, inlets, runner, launcher)
        stored = Materialization(
            env, ledger, defined, time, scheduler, full, executor, pruning, self.outputs.tapped
        )
        return Work(pruning, inlets, executor, full, runner, pipeline, stored, checkpoints)

    def _connect(self) -> None:
        """Let parts hear of each other where one does not hold the other."""
        outputs, work, ledger = self.outputs, self.work, self.ledger
        outputs.changelog.needs += [outputs.sinks.progress.needs, outputs.subscriptions.needs]
        work.inlets.on_running = outputs.changelog.live
        work.inlets.is_sink = lambda: outputs.sinks.waits.is_sink
        outputs.sinks.books.on_room = work.inlets.wake
        outputs.subscriptions.is_awaited = lambda: work.inlets.is_awaited
        work.materialization.is_busy = lambda: work.pipeline.is_on
        if not self.env.read_only:
            outputs.subscriptions.store_followed = work.materialization.store_followed
        outputs.subscriptions.on_spark = self.on_spark
        ledger.pins += [outputs.changelog.pinned, work.checkpoints.pinned]
        ledger.describe = self._contents
        ledger.on_commit += [
            lambda: self.show(Snapshot(ledger.manifest, self.defined.catalog)),
            lambda: work.inlets.again(work.pruning.follow()),
            outputs.changelog.notify,
            outputs.sinks.progress.committed,
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
            spark=fixed_settings(self.env.spark).values,
            functions=defined.catalog.functions.to_json(),
            schemas=defined.catalog.schemas.to_json(),
            sinks=tuple(self.outputs.sinks.to_json()),
            # A new revision of an epoch is still the epoch that was run.
            report=report or self.ledger.manifest.state.report,
        )
        state = self.work.inlets.saved(self.scheduler.saved(self.time.saved(state)))
        return Contents(to_json(defined.catalog.in_order()), state, watermarks)

    # Defining: the statements do the work

    @contextmanager
    def changing(self, what: str, *affected: str) -> Iterator[None]:
        """Have the turn, and work on a copy of the definitions; a failure leaves those of before.

        What is committed stays: a failure after that is one of tidying up.

        Args:
            what: the statement, for those who wait for it.
            affected: views whose columns may change on the way.
        """
        with INTERRUPTS.until_done(), self.ledger.turn(what):
            before, committed = self.defined.catalog, self.ledger.manifest
            self.defined.catalog = before.copy()
            try:
                yield
            except BaseException:
                if self.ledger.manifest is committed:
                    self.defined.catalog = before
                    self.time.watermarks.back()
                    with self.env.lifeline.may_be_lost():
                        before.declare(affected)
                self.work.executor.forget()
                raise

    def have_spark(self) -> None:
        """Have a Spark that is there: in the place of one that is lost another one is started.

        Raises:
            SparkLost: it is lost, and was not started by us, or an epoch waits for the caller.
        """
        lifeline = self.env.lifeline
        why = lifeline.loss()
        if why is None:
            return
        is_alone = not (self.ledger.turn.is_inside or lifeline.is_waited_for)
        if not (lifeline.is_restarted and is_alone):
            raise lifeline.lost(why)
        with self.ledger.turn("another Spark"):
            if lifeline.loss() is not None:
                lifeline.restart(self._renew)

    @contextmanager
    def on_spark(self) -> Iterator[None]:
        """Have a Spark that is there; what it makes of a call if it is lost comes as one error."""
        self.have_spark()
        with self.calls():
            yield

    @property
    def generation(self) -> int:
        """How many Sparks there were before the one of now."""
        return self.env.lifeline.generation

    def calls(self) -> AbstractContextManager[None]:
        """Let what a lost Spark makes of a call come out as one error."""
        return self.env.lifeline.calls()

    def _renew(self, spark: SparkSession) -> None:
        """Let nothing be left of a Spark that is lost; called in the turn, with no epoch begun."""
        self.work.executor.forget()
        renew(self.env.spark, spark)
        self.env.functions.renew()
        self.defined.catalog.declare_all()

    # Reading: `statements.query` does the work

    def snapshot(self) -> Snapshot:
        """Return what readers see: definitions and rows that belong together.

        A reader beside another process looks on disk first, and moves to what it finds there.
        """
        self.look()
        return self._shown

    def show(self, snapshot: Snapshot) -> None:
        """Let readers see another epoch from now on."""
        self._shown = snapshot
