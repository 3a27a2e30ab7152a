"""The engine: one writer that carries all relations from epoch to epoch.

It is a composition of named parts (`engine.parts`). Whoever is handed an engine names the part
that it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.engine.apply_settings import AppliedSettings
from laminar.runtime.engine.call_all import call_all
from laminar.runtime.engine.follow import Follower, as_stored
from laminar.runtime.engine.open import define
from laminar.runtime.engine.parts import Parts
from laminar.runtime.engine.returns import Returns
from laminar.runtime.epoch.outcome import EpochReport
from laminar.runtime.history.timeline import Snapshot
from laminar.runtime.spark.statement_cache import remove_links
from laminar.store import LoggedEpoch, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Engine(Parts):
    """Tables, views and their epochs under one directory: opened, stepped, closed."""

    def __init__(
        self,
        root: Path,
        spark: SparkSession,
        time_settings: TimeSettings | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(root, spark, time_settings, read_only=read_only)
        self.applied_settings = AppliedSettings(self)
        self.returns = Returns(self)
        try:
            self._open(read_only=read_only)
        except BaseException:
            with suppress(Exception):  # why it cannot be opened is what counts
                self.close()
            raise

    def _open(self, *, read_only: bool) -> None:
        """Take up what the newest manifest says; connectors are built on the way."""
        define(self, self.applied_settings)
        self.show(Snapshot(self.ledger.manifest, self.defined.catalog))
        self.work.pruning.follow()
        if read_only:
            self.look = Follower(self, self.applied_settings).follow
            self.show(as_stored(self, self.ledger.manifest))
        else:
            self.outputs.sinks.open()
            remove_links(self.env.root)
            self.ledger.pending.keep_only(self.defined.tables())
            self.ledger.finish_restore()
            self.work.inlets.health.note()

    # Stepping: `work.runner` and `work.pipeline` do the work, the driver tells others of it

    def step(self, *, whole: bool = True) -> EpochReport | None:
        """Run one epoch; None if there is nothing to do.

        Args:
            whole: over all that is pending; otherwise over what the bridges have ready.
        """
        ledger, work = self.ledger, self.work
        self.returns.try_again()
        with ledger.turn("a step"):
            if self.has_logged():
                report = self.replay()
                if report is not None or self.has_logged():
                    return report
            self.defined.require_attached()
            taken = work.inlets.cut(whole=whole)
            if not taken and not self._has_more():
                work.checkpoints.idle()
                work.inlets.require_read()
                return None
            report = work.runner.run(taken)
            work.inlets.require_read(report)
            return report

    def replay(self) -> EpochReport | None:
        """Run the next epoch that was logged before, over its own rows; None if there is none."""
        logged = self.ledger.wal.open_after(self.ledger.epoch)
        if not logged:
            return None
        self.defined.require_attached()
        taken = self._still_there(logged[0])
        if self.returns.are_gone(taken, logged[0].epoch):
            # Nobody has seen anything of it: the others are taken anew, this one when it is back.
            self.ledger.wal.withdraw(logged[0].epoch)
            return None
        return self.work.runner.run(taken, logged[0])

    def has_logged(self) -> bool:
        """Whether an epoch was logged that is not committed: after a crash, or a restore."""
        return bool(self.ledger.wal.open_after(self.ledger.epoch))

    def keep_spark_settings(self) -> None:
        """Store the settings of Spark that are used with a database of a format without them."""
        now = self.ledger.manifest
        if now.revision >= 0 and not now.state.spark:
            with self.ledger.turn("the settings of Spark"):
                self.ledger.recommit()

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

        None if it is there already. What was logged comes first: its rows are taken by no other.
        """
        self.returns.try_again()
        with self.ledger.turn(f"REFRESH {view}"):
            self.defined.require_attached()
            while self.replay():
                pass
            taken = self.work.inlets.cut(whole=True)
            if not taken and self.scheduler.cursor(view) == self.ledger.epoch:
                self.work.inlets.require_read()
                return None
            report = self.catch_up([view], taken)
            self.work.inlets.require_read(report)
            return report

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
            SourceError: a source could not be read; what the others had is committed.
        """
        ledger, work, pipeline = self.ledger, self.work, self.work.pipeline
        self.returns.try_again(wait=whole)
        with ledger.turn("epochs"):
            if pipeline.is_possible() and not self.has_logged():
                self.defined.require_attached()
                if pipeline.flow(notify, limit, whole=whole) > 0:
                    work.inlets.require_read()
                    return True
                if not self._has_more():
                    work.checkpoints.idle()
                    work.inlets.require_read()
                    return False
            # One by one; also the epoch that no rows ask for, but time.
            report = self.step(whole=whole)
            if report is not None:
                notify(report)
            return report is not None

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

    # Closing

    def leave(self, names: Iterable[str]) -> list[Callable[[], object]]:
        """Part from the ways in and the connectors of tables; return what closes them.

        Whoever has the turn calls this, and what it returns when the turn is over: a connector may
        take its time.
        """
        left = list(names)
        ways = [self.work.inlets.ways.forget(name) for name in left]
        sources = [self.defined.sources.pop(name, None) for name in left]
        for name in left:
            self.work.inlets.away.forget(name)
        shut = self.work.inlets.threads.close
        return [
            *(way for way in ways if way is not None),
            *(partial(shut, source) for source in sources if source is not None),
        ]

    def close(self) -> None:
        """Stop threads and close connectors; committed epochs are on disk already.

        Raises:
            WriterBusy: somebody writes for longer than the patience lasts; nothing is closed.
            DatabaseClosed: another thread closes it, or has done so.
        """
        with self.ledger.turn("close"):
            self.ledger.pending.close(self.ledger.turn.patience)
            self.ledger.turn.close()
            self.outputs.subscriptions.close()
            self.work.executor.forget()
            ways = self.leave({*self.defined.tables(), *self.defined.sources})
        ends = [self.outputs.sinks.close, *ways, self.work.checkpoints.close, self.ledger.close]
        ends.append(self.env.lifeline.let_go)
        if not self.env.read_only:
            ends.append(partial(remove_links, self.env.root))
        call_all(ends)
