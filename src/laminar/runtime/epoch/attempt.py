"""An epoch, or one move of it, on its way through the DAG: what it sees, and what works on it.

Both ways of running epochs launch attempts: one after the other, where views may stand at different
epochs and what fails is tried again, and overlapping, where each begins before the last one ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from laminar.checkpoint.in_flight import Delivered
from laminar.dag import CheckpointBarrier
from laminar.errors import OperatorError
from laminar.model.ids import NodeId
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.epoch.executor import CurrentExecutor
from laminar.runtime.epoch.flight import DeltaNotice, Flight
from laminar.runtime.epoch.full_query import FullQueries
from laminar.runtime.epoch.maintainer import Maintainer
from laminar.runtime.epoch.node_task import EpochTask
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions
from laminar.runtime.spark.workspace import Workspace


class Barriers(Protocol):
    """Checkpoints, as epochs see them: an epoch carries a barrier, and every node reports it."""

    def enter(self, epoch: int) -> CheckpointBarrier | None:
        """Return the barrier that an epoch carries, if any."""
        ...

    def report(self, barrier: CheckpointBarrier, node: NodeId) -> None:
        """Take a node's snapshot: a barrier has just passed it."""
        ...

    def withdrawn(self, epoch: int) -> None:
        """Note that an epoch failed, and those after it."""
        ...

    def took(self, epoch: int, delivered: list[Delivered]) -> None:
        """Note what an epoch took from connectors, before it runs."""
        ...

    def committed(self) -> None:
        """Keep the epoch that was just committed, if its barrier passed all nodes."""
        ...

    def replay_from(self, oldest_retained: int) -> int:
        """Return the oldest epoch from which recovery may have to replay."""
        ...


@dataclass(frozen=True, slots=True)
class EpochAttempt:
    """What was launched; whoever launched it waits for it."""

    views: frozenset[str]
    """Those that move; all others stay where they are."""
    bindings: Bindings
    maintainer: Maintainer
    task: EpochTask
    flight: Flight

    def failures(self) -> dict[str, BaseException]:
        """Wait until it is over; return the views that failed, and why."""
        try:
            self.flight.wait()
        except Exception:
            if self.flight.is_left or not self.flight.failures:
                raise
        return {_culprit(name, error): error for name, error in self.flight.failures.items()}


@dataclass(frozen=True, slots=True)
class Launcher:
    """What every attempt needs, whatever it runs."""

    defined: Defined
    full: FullQueries
    executor: CurrentExecutor
    barriers: Barriers

    def launch(
        self,
        workspace: Workspace,
        versions: dict[str, TraceVersions],
        epoch_time: EpochTime,
        stop: int,
        moved: Mapping[str, DeltaNotice],
        due: Collection[str],
        *,
        sizes: dict[str, int],
        views: Collection[str] | None = None,
        barrier: CheckpointBarrier | None = None,
        behind: EpochAttempt | None = None,
        careful: bool = False,
    ) -> EpochAttempt:
        """Send an epoch on its way.

        Args:
            workspace: where its statements run; nobody else uses it meanwhile.
            versions: what is stored around it; grows as it computes.
            epoch_time: its time.
            stop: the epoch that views reach by it.
            moved: tables that changed.
            due: views that time sets in motion, whether or not their inputs changed.
            sizes: aggregate -> partial rows it made last.
            views: those that move; all by default.
            barrier: what travels with it.
            behind: one that may still be on its way, and on which this one stands.
            careful: rows that are there and taken back are left out, at a cost.
        """
        catalog = self.defined.catalog
        every = frozenset(catalog.programs)
        moving = every if views is None else frozenset(views)
        bindings = Bindings(
            workspace.session,
            workspace.store,
            catalog.relations,
            versions,
            careful=careful,
            epoch_time=epoch_time,
            statement_cache=workspace.statement_cache,
        )
        maintainer = Maintainer(bindings, workspace.store, stop, self.full.run)
        late_kept = self.defined.time_settings.late_rows_kept
        task = EpochTask(catalog, bindings, maintainer, every - moving, sizes, late_kept)
        due_here = frozenset(due) & moving
        follow = None if behind is None else partial(task.follow, behind.task)
        flight = self.executor.get().launch(task, moved, due_here, barrier, follow)
        return EpochAttempt(moving, bindings, maintainer, task, flight)


def _culprit(node: str, error: BaseException) -> str:
    """Return the view to blame: a fused one runs inside its readers."""
    return error.node if isinstance(error, OperatorError) else node
