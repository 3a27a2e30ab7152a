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

from laminar.delta.change import Version
from laminar.delta.program import Aged, Periodic
from laminar.model.trace import Trace
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.epoch.attempt import EpochAttempt, Launcher
from laminar.runtime.epoch.flight import DeltaNotice
from laminar.runtime.epoch.outcome import EpochReport, Outcome, sizes_of
from laminar.runtime.epoch.runner import EpochRunner, StartedEpoch, files_of
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.history.ledger import Ledger
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.runtime.spark.workspace import Environment
from laminar.store import Range, discard

_LOG = logging.getLogger("laminar.epochs")


@dataclass(frozen=True, slots=True)
class InFlightEpoch:
    """An epoch on its way through the DAG, and what works on it."""

    begun: StartedEpoch
    traces: dict[str, Trace] | None
    """What it stands on, if that is not what was committed last."""
    attempt: EpochAttempt

    @property
    def epoch(self) -> int:
        """The number that it will be committed under."""
        return self.begun.epoch


class EpochPipeline:
    """Runs several epochs at once, where that cannot be seen.

    Args:
        env: where they work.
        ledger: what is committed.
        defined: the views.
        time: what time sets in motion.
        scheduler: which views step.
        inlets: what epochs take.
        runner: begins and commits them.
        launcher: sends them on their way.
    """

    def __init__(
        self,
        env: Environment,
        ledger: Ledger,
        defined: Defined,
        time: EventTime,
        scheduler: ViewScheduler,
        inlets: ConnectorDagBridge,
        runner: EpochRunner,
        launcher: Launcher,
    ) -> None:
        self._env = env
        self._ledger = ledger
        self._defined = defined
        self._time = time
        self._scheduler = scheduler
        self._inlets = inlets
        self._runner = runner
        self._launcher = launcher
        self.is_on = False
        """Whether epochs are on their way now, so that nothing they stand on may change."""

    def is_possible(self) -> bool:
        """Whether an epoch may begin before the last one is committed.

        Not while some views do not step, or show what they show by the wall clock: both depend on
        what was committed last. A Python operator has one state.
        """
        by_clock = Periodic | Aged
        return (
            self._defined.settings.number("epochs_in_flight") > 1
            and self._scheduler.is_even()
            and not self._defined.operators
            and not any(
                isinstance(r, by_clock) for r in self._defined.catalog.relations.by_name.values()
            )
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
        in_flight: deque[InFlightEpoch] = deque()
        begun = done = 0
        try:
            while True:
                seen: int | None = None  # if it is not for want of a batch that no other one begins
                while (
                    len(in_flight) < self._defined.settings.number("epochs_in_flight")
                    and begun < limit
                ):
                    if in_flight and self._ledger.compactor.is_ready:
                        break
                    seen = self._inlets.signals
                    taken = self._inlets.cut(whole=whole)
                    if not taken:
                        break
                    seen = None
                    in_flight.append(self._launch(taken, in_flight[-1] if in_flight else None))
                    begun += 1
                if not in_flight:
                    return done
                first = in_flight[0]
                try:
                    if not whole and seen is not None and not self._is_over(first, seen):
                        continue  # a batch may be ready for another one
                    first.attempt.flight.wait()
                except Exception as error:
                    if first.attempt.flight.is_left:
                        raise  # nothing may run beside it
                    # It runs again below, and if it fails again, that is raised.
                    _LOG.info("epoch %d runs again, alone: %s", first.epoch, error)
                    self._call_off(in_flight)
                    notify(self._runner.run(first.begun.taken, skipped=first.begun.skipped))
                    return done + 1
                plan = self._scheduler.plan(first.begun.epoch_time.now_ms)
                outcome = _landed(first, self._ledger.manifest.traces)
                alone = len(in_flight) == 1
                report = self._runner.commit(first.begun, plan, outcome, is_last=alone)
                in_flight.popleft()
                notify(report)
                done += 1
        except BaseException:
            # Whatever it was, nothing of what is not committed may go on behind our back.
            if in_flight and in_flight[0].epoch <= self._ledger.epoch:
                in_flight.popleft()
            self._call_off(in_flight)
            raise

    def _is_over(self, first: InFlightEpoch, seen: int) -> bool:
        """Wait until an epoch has ended, or sources have news; say whether it has."""

        def is_news() -> bool:
            self._inlets.pump()  # the loop, which does it else, waits here
            return self._inlets.has_news(seen)

        return first.attempt.flight.ends_before(is_news)

    def _launch(self, taken: list[Range], earlier: InFlightEpoch | None) -> InFlightEpoch:
        """Send an epoch on its way, behind one that may still be."""
        ledger, relations = self._ledger, self._defined.catalog.relations
        traces: dict[str, Trace] | None = None
        if earlier is None:
            traces = ledger.compactor.adopt(ledger.manifest.traces)
            versions = versions_of(relations, traces)
        else:
            versions = {
                name: TraceVersions(each.schema, each.segments(Version.AFTER))
                for name, each in earlier.attempt.bindings.versions.items()
            }
        last = ledger.epoch if earlier is None else earlier.epoch
        before = ledger.manifest.offsets if earlier is None else earlier.begun.offsets
        begun = self._runner.begin(taken, versions, self._runner.log(last + 1, taken), before)
        self._runner.suit(begun, sum(each.rows for m in versions.values() for each in m.before))
        changed = {
            each.table: DeltaNotice(each.table, versions[each.table].changed_rows)
            for each in taken
            if versions[each.table].delta
        }
        attempt = self._launcher.launch(
            self._env.workspaces.of(begun.epoch),
            dict(versions),
            begun.epoch_time,
            begun.epoch,
            changed,
            self._time.in_motion(
                begun.epoch_time, ledger.manifest.traces, is_behind=earlier is not None
            ),
            sizes=self._runner.sizes,
            barrier=self._launcher.barriers.enter(begun.epoch),
            behind=None if earlier is None else earlier.attempt,
        )
        return InFlightEpoch(begun, traces, attempt)

    def _call_off(self, in_flight: deque[InFlightEpoch]) -> None:
        """Forget epochs that were on their way, and all that they made.

        Also one that failed before it was: it is logged, and has taken rows from inlets.
        """
        first = in_flight[0].epoch if in_flight else self._ledger.epoch + 1
        for each in in_flight:
            with suppress(Exception):  # it is called off, so what it failed with does not matter
                each.attempt.flight.wait()
        self._ledger.wal.withdraw(first)
        self._launcher.barriers.withdrawn(first)
        for each in in_flight:
            read = each.begun.read
            discard(self._env.root, files_of(each.attempt.bindings.versions) - read)
            self._runner.forget(read)
        in_flight.clear()
        self._runner.forget(())


def _landed(landed: InFlightEpoch, committed: Mapping[str, Trace]) -> Outcome:
    """Return what became of an epoch in which every view went from the last epoch to this one."""
    traces = dict(committed) if landed.traces is None else landed.traces
    versions = landed.attempt.bindings.versions
    for name, trace_versions in versions.items():
        if trace_versions.delta:
            traces[name] = Trace(trace_versions.schema, trace_versions.segments(Version.AFTER))
    return Outcome(
        traces,
        {
            view: replace(each, from_epoch=landed.epoch - 1, to_epoch=landed.epoch)
            for view, each in landed.attempt.task.reports.items()
        },
        in_time=[landed.attempt.maintainer.in_time.results],
        late=landed.attempt.maintainer.late.batches,
        sizes=sizes_of(versions),
    )
