"""One epoch: ranges in, a committed manifest out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from laminar.checkpoint.in_flight import Delivered
from laminar.delta.change import Version
from laminar.model.row_counts import RowCounts, Skipped, with_dropped
from laminar.model.trace import Trace
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.epoch import late_rows
from laminar.runtime.epoch.attempt import Launcher
from laminar.runtime.epoch.delivered_rows import DeliveredRows
from laminar.runtime.epoch.outcome import EpochReport, Outcome, first_of, held_reports, told_of
from laminar.runtime.epoch.view_executor import MvPipelineExecutor, PassedOver
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.event_time.late_batch import LateBatch
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.history.ledger import INTERRUPTS, Ledger
from laminar.runtime.ingest.arriving_rows import as_late
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.continuity import require_continuous
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.runtime.scheduling.epoch_plan import EpochPlan
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.session import suit
from laminar.runtime.spark.workspace import Environment
from laminar.store import LoggedEpoch, Range, discard


@dataclass(frozen=True, slots=True)
class StartedEpoch:
    """An epoch that has read its rows: what it took, and when it is."""

    epoch: int
    taken: list[Range]
    rows_in: int
    too_late: list[LateBatch]
    """Rows that are too far in the future."""
    versions: dict[str, TraceVersions]
    """What was stored before, with the rows that were taken as deltas of the tables."""
    epoch_time: EpochTime
    started_at: datetime
    started: float
    offsets: Mapping[str, Any]
    """How far each source is read once it is committed."""
    counts: Mapping[str, RowCounts]
    """Source -> what becomes of the rows that it takes."""
    skipped: Mapping[str, Skipped] | None
    """Source -> what was let go before them."""

    @property
    def read(self) -> set[str]:
        """The files that hold what it took."""
        return files_of(self.versions)


class EpochRunner:
    """Carries all relations from one epoch to the next.

    Args:
        env: where it works.
        ledger: what is committed, logged, and waits.
        defined: tables and views.
        time: where watermarks and clocks stand.
        scheduler: which views move.
        inlets: what an epoch takes.
        delivered: turns what a source has delivered into the delta of its table.
        launcher: sends an epoch on its way.
    """

    def __init__(
        self,
        env: Environment,
        ledger: Ledger,
        defined: Defined,
        time: EventTime,
        scheduler: ViewScheduler,
        inlets: ConnectorDagBridge,
        delivered: DeliveredRows,
        launcher: Launcher,
    ) -> None:
        self._env = env
        self._ledger = ledger
        self._defined = defined
        self._time = time
        self._scheduler = scheduler
        self._inlets = inlets
        self._delivered = delivered
        self._launcher = launcher
        self._views = MvPipelineExecutor(
            env,
            defined,
            time,
            launcher,
            lambda: ledger.manifest.state.operators,
        )
        self.sizes: dict[str, int] = {}
        """Aggregate -> partial rows it made last."""

    def run(
        self,
        taken: list[Range],
        logged: LoggedEpoch | None = None,
        forced: Collection[str] = (),
        skipped: Mapping[str, Skipped] | None = None,
    ) -> EpochReport:
        """Run one epoch over these ranges and commit it.

        Which ranges they are is durable before the work starts, or was `logged` before a crash.
        Views that fail stay where they are, with their groups and their readers; the epoch is
        committed for the others, and then the error is raised.

        Args:
            taken: what to read from the tables.
            logged: the epoch as it was begun before a crash.
            forced: views that step whatever their schedule.
            skipped: what was let go before the ranges, if they were taken before and called off.
        """
        logged = logged or self.log(self._ledger.epoch + 1, taken, skipped)
        self._time.watermarks.hear(logged.said)
        try:
            return self._run(taken, logged, forced)
        except BaseException as error:
            if self._ledger.epoch < logged.epoch:
                self._views.take_back_operators()  # they are given the same rows again
            if self._ledger.epoch < logged.epoch and isinstance(error, Exception):
                # Rows that wait here alone must not be asked of their source: it is tried again.
                if not self._ledger.in_flight.holds(logged.epoch):
                    self._ledger.wal.withdraw(logged.epoch)
                self._launcher.barriers.withdrawn(logged.epoch)
                self._inlets.back()  # what was taken is still to be taken
            raise

    def log(
        self, epoch: int, taken: list[Range], skipped: Mapping[str, Skipped] | None = None
    ) -> LoggedEpoch:
        """Make durable that an epoch begins, over which ranges, and at what time."""
        said = self._time.watermarks.unheard
        gaps = self._inlets.skipped(taken) if skipped is None else skipped
        return self._ledger.wal.begin(epoch, taken, self._env.clock(), said, gaps)

    def _run(self, taken: list[Range], logged: LoggedEpoch, forced: Collection[str]) -> EpochReport:
        traces = self._ledger.compactor.adopt(self._ledger.manifest.traces)
        versions = versions_of(self._defined.catalog.relations, traces)
        begun = self.begin(taken, versions, logged, self._ledger.manifest.offsets)
        held = sum(trace.rows for trace in traces.values())
        self.suit(begun, held)
        for name, trace_versions in versions.items():
            if trace_versions.delta:
                traces[name] = Trace(trace_versions.schema, trace_versions.segments(Version.AFTER))
        try:
            plan, outcome = self._run_views(begun, traces, forced)
        except BaseException:
            self.forget(begun.read)
            raise
        if outcome.failures and not taken and self._is_vain(begun, plan, outcome):
            # Only retries, and all of them in vain: there is nothing to commit but that.
            self.forget(())
            self._note_failures(plan, outcome, begun.epoch_time.now_ms)
            raise first_of(outcome.failures)
        report = self.commit(begun, plan, outcome)
        if outcome.failures:
            raise first_of(outcome.failures, report)
        return report

    def _run_views(
        self, begun: StartedEpoch, traces: dict[str, Trace], forced: Collection[str]
    ) -> tuple[EpochPlan, Outcome]:
        """Move the views; those that fail stay, and if need be the others are planned anew."""
        workspace = self._env.workspaces.of(begun.epoch)
        failures: dict[str, BaseException] = {}
        while True:
            down = {view: told_of(error) for view, error in failures.items()}
            plan = self._scheduler.plan(begun.epoch_time.now_ms, forced, down)
            try:
                outcome = self._views.run(plan, traces, begun.epoch_time, workspace, self.sizes)
            except PassedOver as found:
                failures |= found.outcome.failures
                continue
            outcome.failures |= failures
            return plan, outcome

    def _is_vain(self, begun: StartedEpoch, plan: EpochPlan, outcome: Outcome) -> bool:
        """Whether an epoch without rows changed nothing: no view ran, none caught up, no time."""
        marks = self._time.watermarks.cuts.get(begun.epoch - 1, {})
        behind = {view for view in plan.stepping() if plan.before[view] < begun.epoch - 1}
        return (
            not outcome.reports and not behind - outcome.fallen and marks == begun.epoch_time.after
        )

    def _note_failures(self, plan: EpochPlan, outcome: Outcome, now_ms: int) -> None:
        scheduler = self._scheduler
        told = {view: told_of(error) for view, error in outcome.failures.items()}
        failed = scheduler.failed(told, now_ms)
        with scheduler.counting(plan, outcome.fallen, failed), scheduler.failing(failed):
            self._ledger.recommit()

    def forget(self, files: Iterable[str]) -> None:
        """Take an epoch back that was begun, with the files it read its rows into."""
        self._time.watermarks.back()
        discard(self._env.root, files)
        self._inlets.back()

    def begin(
        self,
        taken: list[Range],
        versions: dict[str, TraceVersions],
        logged: LoggedEpoch,
        before: Mapping[str, Any],
    ) -> StartedEpoch:
        """Read what an epoch takes, and move the watermarks by it.

        Args:
            taken: ranges that follow `before`.
            versions: gets the rows as deltas of the tables.
            logged: what is durable of it.
            before: how far each source was read by the epoch in front.

        Raises:
            SourceGap: a range does not follow.
        """
        dropping = self._inlets.dropping() if logged.skipped is None else ()
        committed = {**self._inlets.origins(), **before}
        require_continuous(logged.epoch, taken, committed, logged.skipped, dropping)
        started, started_at = perf_counter(), datetime.now(UTC)
        epoch, now_ms = logged.epoch, logged.now_ms
        self._ledger.turn.doing(f"epoch {epoch}")
        rows, ahead, largest, counts = self._ingest(taken, versions, logged)
        epoch_time = self._time.begin(largest, now_ms)
        return StartedEpoch(
            epoch,
            taken,
            rows,
            ahead,
            versions,
            epoch_time,
            started_at,
            started,
            {**before, **{each.table: each.end for each in taken}},
            counts,
            logged.skipped,
        )

    def suit(self, begun: StartedEpoch, held: int) -> None:
        """Let the sessions that an epoch works in expect as many rows as it has."""
        for session in (self._env.workspaces.of(begun.epoch).session, self._launcher.full.session):
            suit(session, changed=begun.rows_in, held=held)

    def commit(
        self, begun: StartedEpoch, plan: EpochPlan, outcome: Outcome, *, is_last: bool = True
    ) -> EpochReport:
        """Make an epoch true whose views have all moved or stayed.

        Args:
            begun: the epoch.
            plan: what was to happen.
            outcome: what did.
            is_last: whether no other epoch stands on it yet.
        """
        with INTERRUPTS.until_done():
            return self._commit(begun, plan, outcome, is_last=is_last)

    def _commit(
        self, begun: StartedEpoch, plan: EpochPlan, outcome: Outcome, *, is_last: bool
    ) -> EpochReport:
        ledger, epoch, traces = self._ledger, begun.epoch, outcome.traces
        kept = self._defined.time_settings.late_rows_kept
        scheduler, now_ms = self._scheduler, begun.epoch_time.now_ms
        self.sizes = outcome.sizes
        told = {view: told_of(error) for view, error in outcome.failures.items()}
        failed = scheduler.failed(told, now_ms)
        progress = scheduler.after(plan, outcome.fallen, failed, now_ms)
        too_late = begun.too_late + outcome.late
        clocks = self._time.after(
            begun.epoch_time, outcome.in_time, too_late, traces, progress.behind, lets_go=is_last
        )
        late_rows.keep(too_late, self._env.store, epoch, traces, kept)
        offsets = {
            **ledger.manifest.offsets,
            **{each.table: each.end for each in begun.taken},
        }
        counts = {each.relation: each.count for each in too_late}
        duration, stay = _since(begun.started), held_reports(plan, outcome.fallen, told)
        report = EpochReport(epoch, begun.rows_in, duration, outcome.reports, counts, stay)
        with (
            scheduler.counting(plan, outcome.fallen, failed),
            scheduler.with_progress(progress),
            self._time.kept(clocks, epoch, progress.behind, begun.epoch_time),
            self._inlets.counting(begun.counts),
        ):
            ledger.commit(epoch, traces, offsets, report.to_json(begun.started_at))
        self._inlets.committed(begun.taken)
        ledger.in_flight.forget_through(epoch)
        if outcome.failures:
            self._launcher.barriers.withdrawn(epoch)  # its barrier did not pass all nodes
        self._launcher.barriers.committed()
        self.forget_log()
        if self._defined.settings.is_on("compaction"):
            useless, live = self._time.useless(), progress.live()
            relations = self._defined.catalog.relations
            ledger.compactor.submit(ledger.manifest.traces, relations, epoch, useless, live)
        return replace(report, duration_ms=_since(begun.started))

    def forget_log(self, through: int | None = None) -> None:
        """Let go of logged epochs, and of pushed rows, that no replay will ask for any more."""
        if through is None:
            oldest = self._ledger.epoch - self._ledger.timeline.retained + 1
            through = self._launcher.barriers.replay_from(oldest)
        connected = [n for n, each in self._defined.tables().items() if each.connector is not None]
        self._ledger.forget_through(through, connected)

    def _ingest(
        self, taken: list[Range], versions: dict[str, TraceVersions], logged: LoggedEpoch
    ) -> tuple[int, list[LateBatch], dict[str, Mapping[str, int]], dict[str, RowCounts]]:
        """Read all ranges.

        Return how many rows there are, those too far in the future, how far in time each part of
        each table has come, and what becomes of all rows.
        """
        epoch, now_ms, gaps = logged.epoch, logged.now_ms, logged.skipped or {}
        tables = self._defined.tables()
        rows = 0
        ahead: list[LateBatch] = []
        largest: dict[str, Mapping[str, int]] = {}
        delivered: list[Delivered] = []
        counts: dict[str, RowCounts] = {}
        for each in taken:
            table = tables[each.table]
            done = self._inlets.take(each, epoch, now_ms)
            segment = done.segment
            rows += done.rows
            counts[each.table] = with_dropped(done.counts, gaps.get(each.table))
            if segment is not None and done.delivered is None:
                segment = self._delivered.resolve(
                    table, segment, versions[each.table].before, epoch
                )
            if segment is not None:
                versions[each.table] = replace(versions[each.table], delta=(segment,))
            if done.largest:
                largest[each.table] = done.largest
            if done.ahead is not None and table.event_time is not None:
                kept = self._defined.time_settings.late_rows_kept
                ahead.append(as_late(each.table, table.event_time, done.ahead, epoch, kept))
            if table.connector is not None:
                delivered.append(
                    Delivered(each, segment, done.rows, done.largest, done.ahead, done.counts)
                )
        self._launcher.barriers.took(epoch, delivered)
        self._inlets.ahead()
        return rows, ahead, largest, counts


def files_of(versions: Mapping[str, TraceVersions]) -> set[str]:
    """Return the files of all that an epoch has added so far."""
    return {file for each in versions.values() for part in each.delta for file in part.files}


def _since(started: float) -> float:
    return (perf_counter() - started) * 1000
