"""Epochs that begin before the one in front of them is committed.

From outside they look as if they had run one after the other: each stands on what the one before
leaves at each node, and they are committed in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from laminar.delta.change import Version
from laminar.delta.program import Aged, Emitted, Late, Periodic
from laminar.model.trace import Trace
from laminar.runtime.epoch.flight import DeltaNotice, Flight
from laminar.runtime.epoch.maintainer import Maintainer
from laminar.runtime.epoch.node_task import EpochTask
from laminar.runtime.epoch.outcome import Outcome, sizes_of
from laminar.runtime.epoch.report import EpochReport
from laminar.runtime.epoch.runner import StartedEpoch, files_of
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.store import Range, discard

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine

_LOG = logging.getLogger("laminar.epochs")


@dataclass(frozen=True, slots=True)
class InFlightEpoch:
    """An epoch on its way through the DAG, and what works on it."""

    begun: StartedEpoch
    traces: dict[str, Trace] | None
    """What it stands on, if that is not what was committed last."""
    bindings: Bindings
    maintainer: Maintainer
    task: EpochTask
    flight: Flight

    @property
    def epoch(self) -> int:
        """Its number."""
        return self.begun.epoch


class EpochPipeline:
    """Runs several epochs at once, where that cannot be seen."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.is_on = False
        """Whether epochs are on their way now, so that nothing they stand on may change."""

    def is_possible(self) -> bool:
        """Whether an epoch may begin before the last one is committed.

        Not while event time decides what an epoch shows, nor while some views do not step: both
        depend on what was committed last. An upsert looks up rows, and a Python operator has one
        state.
        """
        engine = self._engine
        timed = Emitted | Periodic | Aged | Late
        return (
            engine.settings.number("epochs_in_flight") > 1
            and engine.scheduler.is_even()
            and not engine.operators
            and not any(t.event_time or t.primary_key for t in engine.tables().values())
            and not any(isinstance(r, timed) for r in engine.catalog.relations.by_name.values())
        )

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
        self.is_on = True
        try:
            return self._flow(notify, limit, whole=whole)
        finally:
            self.is_on = False

    def _flow(self, notify: Callable[[EpochReport], object], limit: int, *, whole: bool) -> int:
        engine = self._engine
        aloft: deque[InFlightEpoch] = deque()
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
                except Exception as error:
                    # It runs again below, and if it fails again, that is raised.
                    _LOG.info("epoch %d runs again, alone: %s", first.epoch, error)
                    self._call_off(aloft)
                    notify(engine.epochs.run(first.begun.taken))
                    return done + 1
                plan = engine.scheduler.plan(first.begun.epoch_time.now_ms)
                outcome = _landed(first, engine.manifest.traces)
                report = engine.epochs.commit(first.begun, plan, outcome)
                aloft.popleft()
                notify(report)
                done += 1
        except BaseException:
            # Whatever it was, nothing of what is not committed may go on behind our back.
            if aloft and aloft[0].epoch <= engine.manifest.epoch:
                aloft.popleft()
            self._call_off(aloft)
            raise

    def _launch(self, taken: list[Range], earlier: InFlightEpoch | None) -> InFlightEpoch:
        """Send an epoch on its way, behind one that may still be."""
        engine = self._engine
        traces: dict[str, Trace] | None
        if earlier is None:
            traces = engine.compactor.adopt(engine.manifest.traces)
            versions = versions_of(engine.catalog.relations, traces)
        else:
            traces = None
            versions = {
                name: TraceVersions(each.schema, each.segments(Version.AFTER))
                for name, each in earlier.bindings.versions.items()
            }
        last = engine.manifest.epoch if earlier is None else earlier.epoch
        begun = engine.epochs.begin(taken, versions, engine.epochs.log(last + 1, taken))
        engine.epochs.suit(begun, sum(each.rows for m in versions.values() for each in m.before))
        workspace = engine.workspaces.of(begun.epoch)
        relations = engine.catalog.relations
        bindings = Bindings(
            workspace.session,
            workspace.store,
            relations,
            dict(versions),
            epoch_time=begun.epoch_time,
            statement_cache=workspace.statement_cache,
        )
        maintainer = Maintainer(bindings, workspace.store, begun.epoch, engine.full.run)
        kept, sizes = engine.limits.late_rows_kept, engine.epochs.sizes
        task = EpochTask(engine.catalog, bindings, maintainer, frozenset(), sizes, kept)
        if earlier is not None:
            task.follow(earlier.task)
        return InFlightEpoch(begun, traces, bindings, maintainer, task, self._fly(begun, task))

    def _fly(self, begun: StartedEpoch, task: EpochTask) -> Flight:
        engine = self._engine
        changed = {
            each.table: DeltaNotice(each.table, begun.versions[each.table].changed_rows)
            for each in begun.taken
            if begun.versions[each.table].delta
        }
        in_motion = engine.time.in_motion(begun.epoch_time, engine.manifest.traces)
        barrier = engine.checkpoints.enter(begun.epoch)
        return engine.current_executor().launch(task, changed, in_motion, barrier)

    def _call_off(self, aloft: deque[InFlightEpoch]) -> None:
        """Forget epochs that were on their way, and all that they made."""
        if not aloft:
            return
        engine = self._engine
        for each in aloft:
            with suppress(Exception):  # it is called off, so what it failed with does not matter
                each.flight.wait()
        engine.wal.withdraw(aloft[0].epoch)
        engine.checkpoints.withdrawn(aloft[0].epoch)
        for each in aloft:
            read = each.begun.read
            discard(engine.root, files_of(each.bindings.versions) - read)
            engine.epochs.forget(read)
        aloft.clear()


def _landed(aloft: InFlightEpoch, committed: Mapping[str, Trace]) -> Outcome:
    """Return what became of an epoch in which every view went from the last epoch to this one."""
    traces = dict(committed) if aloft.traces is None else aloft.traces
    versions = aloft.bindings.versions
    for name, trace_versions in versions.items():
        if trace_versions.delta:
            traces[name] = Trace(trace_versions.schema, trace_versions.segments(Version.AFTER))
    return Outcome(
        traces,
        {
            view: replace(each, from_epoch=aloft.epoch - 1, to_epoch=aloft.epoch)
            for view, each in aloft.task.reports.items()
        },
        in_time=[aloft.maintainer.in_time.results],
        late=aloft.maintainer.late.batches,
        bindings=aloft.bindings,
        sizes=sizes_of(versions),
    )
