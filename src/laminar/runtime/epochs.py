"""One epoch: ranges in, a committed manifest out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from laminar.delta.change import Version
from laminar.delta.program import Aged, Emitted, Late, Periodic
from laminar.model.trace import Trace
from laminar.runtime import late
from laminar.runtime.epoch_task import EpochTask
from laminar.runtime.faces import Faces, Moment, moments_of
from laminar.runtime.flight import Delta, Flight
from laminar.runtime.future import as_late
from laminar.runtime.maintain import Maintainer
from laminar.runtime.outcome import Outcome, first_of, held_reports, sizes_of, told_of
from laminar.runtime.passes import PassedOver, Passes
from laminar.runtime.report import EpochReport
from laminar.runtime.spark import suit
from laminar.runtime.stepping import Plan
from laminar.runtime.watermarks import Turn
from laminar.store import LoggedEpoch, Range, discard

if TYPE_CHECKING:
    from laminar.runtime.engine import Engine


@dataclass(slots=True)
class Aloft:
    """An epoch on its way: what it took, and what works on it."""

    epoch: int
    taken: list[Range]
    rows_in: int
    too_late: list[late.LateBatch]
    ingested: dict[str, Moment]
    turn: Turn
    started_at: datetime
    started: float
    traces: dict[str, Trace] | None = None
    """What it stands on, if that is not what was committed last."""
    task: EpochTask = field(init=False)
    faces: Faces = field(init=False)
    maintainer: Maintainer = field(init=False)
    flight: Flight = field(init=False)

    @property
    def read(self) -> set[str]:
        """The files that hold what it took."""
        return {f for m in self.ingested.values() for s in m.delta for f in s.files}

    @property
    def made(self) -> set[str]:
        """The files of all that it has added so far."""
        return {f for m in self.faces.moments.values() for s in m.delta for f in s.files}


class Epochs:
    """Carries an engine from one epoch to the next."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._passes = Passes(engine)
        self._sizes: dict[str, int] = {}  # partial rows that each aggregate made last
        self.overlap = False
        """Whether epochs are on their way now, so that nothing they stand on may change."""

    def run(
        self,
        taken: list[Range],
        logged: LoggedEpoch | None = None,
        forced: Collection[str] = (),
    ) -> EpochReport:
        """Run one epoch over these ranges and commit it.

        Which ranges they are is durable before the work starts, or was `logged` before a crash.
        Views that fail stay where they are, with their groups and their readers; the epoch is
        committed for the others, and then the error is raised.

        Args:
            taken: what to read from the tables.
            logged: the epoch as it was begun before a crash.
            forced: views that step whatever their schedule.
        """
        engine = self._engine
        logged = logged or self._log(engine.manifest.epoch + 1, taken)
        engine.time.watermarks.hear(logged.said)
        try:
            return self._run(taken, logged, forced)
        except Exception:
            if engine.manifest.epoch < logged.epoch:
                engine.wal.withdraw(logged.epoch)
                engine.checkpoints.withdrawn(logged.epoch)
                engine.inlets.back()  # what was taken is still to be taken
            raise

    def _log(self, epoch: int, taken: list[Range]) -> LoggedEpoch:
        engine = self._engine
        said = engine.time.watermarks.said
        return engine.wal.begin(epoch, taken, engine.limits.clock(), said)

    def _run(self, taken: list[Range], logged: LoggedEpoch, forced: Collection[str]) -> EpochReport:
        engine = self._engine
        traces = engine.compactor.adopt(engine.manifest.traces)
        moments = moments_of(engine.catalog.relations, traces)
        aloft = self._take(taken, moments, logged)
        held = sum(trace.rows for trace in traces.values())
        self._suit(aloft, held)
        for name, moment in moments.items():
            if moment.delta:
                traces[name] = Trace(moment.schema, moment.segments(Version.AFTER))
        try:
            plan, outcome = self._run_views(aloft, traces, forced)
        except BaseException:
            self._forget(aloft.read)
            raise
        if outcome.failures and not taken and self._is_vain(aloft, plan, outcome):
            # Only retries, and all of them in vain: there is nothing to commit but that.
            self._forget(())
            self._note_failures(plan, outcome, aloft.turn.now_ms)
            raise first_of(outcome.failures)
        report = self._commit(aloft, plan, outcome)
        if outcome.failures:
            raise first_of(outcome.failures, report)
        return report

    def _run_views(
        self, aloft: Aloft, traces: dict[str, Trace], forced: Collection[str]
    ) -> tuple[Plan, Outcome]:
        """Move the views; those that fail stay, and if need be the others are planned anew."""
        engine = self._engine
        room = engine.room(aloft.epoch)
        failures: dict[str, BaseException] = {}
        while True:
            down = {view: told_of(error) for view, error in failures.items()}
            plan = engine.holding.plan(aloft.turn.now_ms, forced, down)
            try:
                outcome = self._passes.run(plan, traces, aloft.turn, room, self._sizes)
            except PassedOver as found:
                failures |= found.outcome.failures
                continue
            outcome.failures |= failures
            return plan, outcome

    def _is_vain(self, aloft: Aloft, plan: Plan, outcome: Outcome) -> bool:
        """Whether an epoch without rows changed nothing: no view ran, none caught up, no time."""
        marks = self._engine.time.watermarks.cuts.get(aloft.epoch - 1, {})
        behind = {view for view in plan.stepping() if plan.before[view] < aloft.epoch - 1}
        return not outcome.reports and not behind - outcome.fallen and marks == aloft.turn.after

    def _note_failures(self, plan: Plan, outcome: Outcome, now_ms: int) -> None:
        holding = self._engine.holding
        told = {view: told_of(error) for view, error in outcome.failures.items()}
        failed = holding.failed(told, now_ms)
        holding.count(plan, outcome.fallen, failed)
        with holding.failing(failed):
            self._engine.recommit()

    def flow(
        self, notify: Callable[[EpochReport], object], limit: int, *, whole: bool = True
    ) -> int:
        """Run epochs while there is something to take, each beginning before the last one ends.

        They are committed in order, one at a time. When one fails, those behind it are called off
        and it runs once more, alone; what comes of that counts. Traces that were compacted
        meanwhile are put in place between two epochs, with none in the air.

        Args:
            notify: told about every committed epoch.
            limit: stop after so many.
            whole: take all that is there; otherwise what the bridges have ready.

        Returns:
            How many epochs were committed.
        """
        self.overlap = True
        try:
            return self._flow(notify, limit, whole=whole)
        finally:
            self.overlap = False

    def _flow(self, notify: Callable[[EpochReport], object], limit: int, *, whole: bool) -> int:
        engine = self._engine
        aloft: deque[Aloft] = deque()
        begun = done = 0
        try:
            while True:
                while len(aloft) < engine.settings.number("epochs_in_flight") and begun < limit:
                    if aloft and engine.compactor.is_ready:
                        break
                    taken = engine.inlets.cut(whole=whole)
                    if not taken:
                        break
                    aloft.append(self._launch(taken, aloft[-1] if aloft else None))
                    begun += 1
                if not aloft:
                    return done
                first = aloft[0]
                try:
                    first.flight.wait()
                except Exception:
                    self._call_off(aloft)
                    notify(self.run(first.taken))
                    return done + 1
                plan = engine.holding.plan(first.turn.now_ms)
                report = self._commit(first, plan, _landed(first, engine.manifest.traces))
                aloft.popleft()
                notify(report)
                done += 1
        except BaseException:
            # Whatever it was, nothing of what is not committed may go on behind our back.
            if aloft and aloft[0].epoch <= engine.manifest.epoch:
                aloft.popleft()
            self._call_off(aloft)
            raise

    def can_overlap(self) -> bool:
        """Whether an epoch may begin before the last one is committed.

        Not while event time decides what an epoch shows, nor while some views do not step: both
        depend on what was committed last. An upsert looks up rows, and a Python operator has one
        state.
        """
        engine = self._engine
        timed = Emitted | Periodic | Aged | Late
        return (
            engine.settings.number("epochs_in_flight") > 1
            and engine.holding.is_even()
            and not engine.operators
            and not any(t.event_time or t.primary_key for t in engine.tables().values())
            and not any(isinstance(r, timed) for r in engine.catalog.relations.by_name.values())
        )

    def _launch(self, taken: list[Range], earlier: Aloft | None) -> Aloft:
        """Send an epoch on its way, behind one that may still be."""
        engine = self._engine
        traces: dict[str, Trace] | None
        if earlier is None:
            traces = engine.compactor.adopt(engine.manifest.traces)
            moments = moments_of(engine.catalog.relations, traces)
        else:
            traces = None
            moments = {
                name: Moment(each.schema, each.segments(Version.AFTER))
                for name, each in earlier.faces.moments.items()
            }
        last = engine.manifest.epoch if earlier is None else earlier.epoch
        aloft = self._take(taken, moments, self._log(last + 1, taken))
        aloft.traces = traces
        self._suit(aloft, sum(each.rows for m in moments.values() for each in m.before))
        self._equip(aloft)
        if earlier is not None:
            aloft.task.follow(earlier.task)
        self._fly(aloft)
        return aloft

    def _call_off(self, aloft: deque[Aloft]) -> None:
        """Forget epochs that were on their way, and all that they made."""
        if not aloft:
            return
        for each in aloft:
            with suppress(Exception):
                each.flight.wait()
        self._engine.wal.withdraw(aloft[0].epoch)
        self._engine.checkpoints.withdrawn(aloft[0].epoch)
        for each in aloft:
            discard(self._engine.root, each.made - each.read)
            self._forget(each.read)
        aloft.clear()

    def _forget(self, files: Iterable[str]) -> None:
        engine = self._engine
        engine.time.watermarks.back()
        discard(engine.root, files)
        engine.inlets.back()

    def _take(self, taken: list[Range], moments: dict[str, Moment], logged: LoggedEpoch) -> Aloft:
        """Read what an epoch takes, and move the watermarks by it."""
        started, started_at = time.perf_counter(), datetime.now(UTC)
        epoch, now_ms = logged.epoch, logged.now_ms
        rows, ahead, largest = self._ingest(taken, moments, epoch, now_ms)
        turn = self._engine.time.begin(largest, now_ms)
        return Aloft(epoch, taken, rows, ahead, moments, turn, started_at, started)

    def _suit(self, aloft: Aloft, held: int) -> None:
        for session in (self._engine.room(aloft.epoch).session, self._engine.full):
            suit(session, changed=aloft.rows_in, held=held)

    def _equip(self, aloft: Aloft) -> None:
        engine = self._engine
        room = engine.room(aloft.epoch)
        relations = engine.catalog.relations
        moments = dict(aloft.ingested)
        aloft.faces = Faces(room.session, room.store, relations, moments, turn=aloft.turn)
        aloft.maintainer = Maintainer(aloft.faces, room.store, aloft.epoch, engine.run_full)
        kept = engine.limits.late_rows_kept
        aloft.task = EpochTask(
            engine.catalog, aloft.faces, aloft.maintainer, frozenset(), self._sizes, kept
        )

    def _fly(self, aloft: Aloft) -> None:
        engine = self._engine
        changed = {
            each.table: Delta(each.table, aloft.ingested[each.table].changed_rows)
            for each in aloft.taken
            if aloft.ingested[each.table].delta
        }
        in_motion = engine.time.in_motion(aloft.turn, engine.manifest.traces)
        barrier = engine.checkpoints.enter(aloft.epoch)
        executor = engine.current_executor()
        aloft.flight = executor.launch(aloft.task, changed, in_motion, barrier)

    def _commit(self, aloft: Aloft, plan: Plan, outcome: Outcome) -> EpochReport:
        """Make an epoch true whose views have all moved or stayed; let the sinks have it."""
        engine, epoch, traces = self._engine, aloft.epoch, outcome.traces
        holding, now_ms = engine.holding, aloft.turn.now_ms
        self._sizes = outcome.sizes
        told = {view: told_of(error) for view, error in outcome.failures.items()}
        failed = holding.failed(told, now_ms)
        standing = holding.after(plan, outcome.fallen, failed, now_ms)
        too_late = aloft.too_late + outcome.late
        clocks = engine.time.after(aloft.turn, outcome.in_time, too_late, traces, standing.behind)
        late.keep(too_late, engine.store, epoch, traces, engine.limits.late_rows_kept)
        offsets = {**engine.manifest.offsets, **{each.table: each.end for each in aloft.taken}}
        counts = {each.relation: each.count for each in too_late}
        duration, stay = _since(aloft.started), held_reports(plan, outcome.fallen, told)
        report = EpochReport(epoch, aloft.rows_in, duration, outcome.reports, counts, stay)
        holding.count(plan, outcome.fallen, failed)
        with holding.standing_as(standing), engine.time.kept(clocks, epoch, standing.behind):
            engine.commit(epoch, traces, offsets, report.to_json(aloft.started_at))
        engine.inlets.committed(aloft.taken)
        if outcome.failures:
            engine.checkpoints.withdrawn(epoch)  # its barrier did not pass all nodes
        engine.checkpoints.committed()
        engine.forget_log()
        assert outcome.faces is not None
        engine.publisher.publish(epoch, outcome.faces)
        if engine.settings.is_on("compaction"):
            useless, live = engine.time.useless(), standing.live()
            relations = engine.catalog.relations
            engine.compactor.submit(engine.manifest.traces, relations, epoch, useless, live)
        return replace(report, duration_ms=_since(aloft.started))

    def _ingest(
        self, taken: list[Range], moments: dict[str, Moment], epoch: int, now_ms: int
    ) -> tuple[int, list[late.LateBatch], dict[str, Mapping[str, int]]]:
        """Read all ranges.

        Return how many rows there are, those too far in the future, and how far in time each part
        of each table has come.
        """
        engine = self._engine
        tables = engine.tables()
        rows = 0
        ahead: list[late.LateBatch] = []
        largest: dict[str, Mapping[str, int]] = {}
        for each in taken:
            table = tables[each.table]
            done = engine.inlets.take(each, epoch, now_ms)
            segment = done.segment
            if segment is not None:
                rows += segment.rows
                segment = engine.upserts.resolve(table, segment, moments[each.table].before, epoch)
            if segment is not None:
                moments[each.table] = replace(moments[each.table], delta=(segment,))
            if done.largest:
                largest[each.table] = done.largest
            if done.ahead is not None and table.event_time is not None:
                kept = engine.limits.late_rows_kept
                ahead.append(as_late(each.table, table.event_time, done.ahead, epoch, kept))
        engine.inlets.ahead()
        return rows, ahead, largest


def _landed(aloft: Aloft, committed: Mapping[str, Trace]) -> Outcome:
    """Return what became of an epoch in which every view went from the last epoch to this one."""
    traces = dict(committed) if aloft.traces is None else aloft.traces
    moments = aloft.faces.moments
    for name, moment in moments.items():
        if moment.delta:
            traces[name] = Trace(moment.schema, moment.segments(Version.AFTER))
    return Outcome(
        traces,
        {
            view: replace(each, from_epoch=aloft.epoch - 1, to_epoch=aloft.epoch)
            for view, each in aloft.task.reports.items()
        },
        in_time=[aloft.maintainer.in_time],
        late=aloft.maintainer.late.batches,
        faces=aloft.faces,
        sizes=sizes_of(moments),
    )


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
