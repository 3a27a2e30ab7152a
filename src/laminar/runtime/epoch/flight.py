"""One epoch on its way through the DAG."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from laminar.dag import CheckpointBarrier, DagNode
from laminar.errors import SparkLost
from laminar.model.ids import EdgeId, NodeId


def _nothing() -> None:
    """Release nothing."""


def _without_end(is_over: Callable[[float], bool]) -> None:
    """Wait for what waits for no Spark: it ends by itself."""
    while not is_over(_SECOND):
        pass


_SECOND = 1.0
_LOOK_AGAIN = 0.02


@dataclass(frozen=True, slots=True)
class DeltaNotice:
    """What a node hands on: that it changed, and how to let go of what it holds."""

    relation: str
    rows: int
    release: Callable[[], None] = _nothing


class NodeTask(Protocol):
    """The work of an epoch, node by node."""

    def prepare(self, nodes: list[DagNode]) -> None:
        """See which nodes are about to run side by side."""
        ...

    def run(self, node: DagNode, _inputs: list[DeltaNotice], /) -> DeltaNotice | None:
        """Bring a node up to date; None if it did not change."""
        ...

    def share(self, node: DagNode, delta: DeltaNotice) -> DeltaNotice:
        """Make a delta that several consumers read cheap to read more than once."""
        ...

    def finished(self, node: DagNode) -> None:
        """See that a node has done all it does in this epoch; the next epoch may reach it now."""
        ...


@dataclass(eq=False, slots=True)
class Flight:
    """Where an epoch stands: what has arrived where, what runs, what is done."""

    number: int
    """Counts launches; an epoch that is tried again gets another one."""
    task: NodeTask
    sources: Mapping[str, DeltaNotice]
    """Table -> what changed in it."""
    in_motion: frozenset[str]
    """Nodes that time sets in motion, whether or not their inputs changed."""
    left: set[NodeId]
    """Nodes that have not finished."""
    barrier: CheckpointBarrier | None = None
    inbox: dict[NodeId, list[tuple[EdgeId, DeltaNotice]]] = field(default_factory=dict)
    aligned: set[NodeId] = field(default_factory=set)
    """Nodes that have all their inputs and have not begun."""
    parked: list[tuple[DagNode, DeltaNotice]] = field(default_factory=list)
    """Outputs for which the buffer of a shared stage has no room yet."""
    skipped: set[NodeId] = field(default_factory=set)
    """Nodes that depend on one that failed."""
    failures: dict[str, BaseException] = field(default_factory=dict)
    """Node -> why it failed; nodes that do not depend on it have run all the same."""
    running: int = 0
    is_called_off: bool = False
    """An earlier epoch failed, so that this one stands on nothing."""
    outlast: Callable[[Callable[[float], bool]], None] = _without_end
    """Waits for work for as long as Spark lives, see `Lifeline.outlast`."""
    lost: SparkLost | None = None
    """Why nobody waits for it any more, though a node of it has not come back."""
    _over: threading.Event = field(default_factory=threading.Event)

    def _outlast(self, is_over: Callable[[float], bool] | None = None) -> None:
        if self.lost is not None:
            raise self.lost
        try:
            self.outlast(is_over or self._over.wait)
        except SparkLost as error:
            self.lost, self.is_called_off = error, True
            raise

    @property
    def is_left(self) -> bool:
        """Whether a node of it was left behind."""
        return self.lost is not None

    def end(self) -> None:
        """Let those go on who wait for it."""
        self._over.set()

    def ends_before(self, is_news: Callable[[], bool]) -> bool:
        """Wait until nothing of it runs, or there is news; say whether nothing does.

        Raises:
            SparkLost: it is lost, and a node has not noticed in time.
        """

        def look(seconds: float) -> bool:
            until = monotonic() + seconds
            while not self._over.wait(max(0.0, min(_LOOK_AGAIN, until - monotonic()))):
                if monotonic() >= until:
                    return False
                if is_news():
                    return True
            return True

        self._outlast(look)
        return self._over.is_set()

    def wait(self) -> None:
        """Wait until nothing of it runs; raise what went wrong first, if anything did.

        Every node ends: by itself, or with Spark. What does not is left behind.

        Raises:
            SparkLost: it is lost, and a node has not noticed in time.
        """
        try:
            self._outlast()
        except SparkLost:
            raise
        except BaseException:
            # The caller is going to clean up: nothing may write behind its back.
            self.is_called_off = True
            self._outlast()
            raise
        for error in self.failures.values():
            raise error
