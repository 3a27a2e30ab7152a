"""Runs an epoch over the DAG: in waves, side by side, each shared output computed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from laminar.dag import DagNode, MulticastBuffer, StreamingDag
from laminar.errors import LaminarError, OperatorError
from laminar.model.ids import NodeId
from laminar.runtime.refusals import first_sentence


def _nothing() -> None:
    """Release nothing."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What a node hands on: that it changed, and how to let go of what it holds."""

    relation: str
    rows: int
    release: Callable[[], None] = _nothing


class NodeTask(Protocol):
    """The work of an epoch, node by node."""

    def prepare(self, nodes: list[DagNode]) -> None:
        """See which nodes are about to run side by side."""
        ...

    def run(self, node: DagNode, _inputs: list[Delta], /) -> Delta | None:
        """Bring a node up to date; None if it did not change."""
        ...

    def share(self, node: DagNode, delta: Delta) -> Delta:
        """Make a delta that several consumers read cheap to read more than once."""
        ...


@dataclass(slots=True)
class DagExecutorMetrics:
    """Counters since the executor was built."""

    epochs: int = 0
    executions: dict[str, int] = field(default_factory=dict)
    multicast_publishes: int = 0
    node_ms: dict[str, float] = field(default_factory=dict)
    node_rows: dict[str, int] = field(default_factory=dict)


class DagExecutor:
    """Carries deltas along the edges of one topology.

    A node runs when at least one of its inputs changed, after all of them are done. The routing
    table says where an output goes: to one consumer it is handed over, to several it is
    published once, and the last of them to finish frees it.
    """

    def __init__(self, dag: StreamingDag, *, workers: int = 4, capacity: int = 4) -> None:
        self.dag = dag
        self.metrics = DagExecutorMetrics()
        self._routing = dag.routing_table
        self._buffers: dict[NodeId, MulticastBuffer[Delta]] = {
            node: MulticastBuffer(capacity, shared.consumer_count, on_free=_release)
            for node, shared in dag.shared_stages().items()
        }
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="laminar-node")
        self._lock = Lock()

    def run_epoch(
        self, task: NodeTask, sources: Mapping[str, Delta], due: Collection[str] = ()
    ) -> None:
        """Run one epoch; on an error nothing stays in flight, and the error says which node.

        Args:
            task: the work at each node.
            sources: what changed.
            due: nodes that time sets in motion, whether or not their inputs changed.
        """
        inbox: dict[NodeId, list[tuple[NodeId, Delta]]] = {}
        try:
            for wave in self.dag.waves():
                self._run_wave(task, wave, sources, inbox, due)
            self.metrics.epochs += 1
        finally:
            self._drain()

    def _run_wave(
        self,
        task: NodeTask,
        wave: tuple[NodeId, ...],
        sources: Mapping[str, Delta],
        inbox: dict[NodeId, list[tuple[NodeId, Delta]]],
        in_motion: Collection[str],
    ) -> None:
        due: list[DagNode] = []
        for node_id in wave:
            node = self.dag.nodes[node_id]
            if node.name in sources:
                self._route(task, node, sources[node.name], inbox)
            elif node_id in inbox or node.name in in_motion:
                due.append(node)
        task.prepare(due)
        running: list[tuple[DagNode, Future[Delta | None]]] = []
        for node in due:
            deltas = [delta for _, delta in inbox.get(node.id, [])]
            running.append((node, self._pool.submit(self._run_node, task, node, deltas)))
        # Every node of the wave ends before any error is raised: none may write behind our back.
        results = [(node, future, future.exception()) for node, future in running]
        for node, _, error in results:
            if error is not None:
                raise named_error(node.name, error)
        for node, future, _ in results:
            self._release_inputs(node, inbox)
            delta = future.result()
            if delta is not None:
                self._route(task, node, delta, inbox)

    def _run_node(self, task: NodeTask, node: DagNode, deltas: list[Delta]) -> Delta | None:
        started = time.perf_counter()
        delta = task.run(node, deltas)
        with self._lock:
            name = node.name
            self.metrics.executions[name] = self.metrics.executions.get(name, 0) + 1
            self.metrics.node_ms[name] = (time.perf_counter() - started) * 1000
            self.metrics.node_rows[name] = delta.rows if delta else 0
        return delta

    def _route(
        self,
        task: NodeTask,
        node: DagNode,
        delta: Delta,
        inbox: dict[NodeId, list[tuple[NodeId, Delta]]],
    ) -> None:
        entry = self._routing.route(node.id, 0)
        if entry.is_multicast:
            delta = task.share(node, delta)
            self._buffers[node.id].publish(delta)
            self.metrics.multicast_publishes += 1
        for target in entry.targets:
            inbox.setdefault(target, []).append((node.id, delta))

    def _release_inputs(
        self, node: DagNode, inbox: dict[NodeId, list[tuple[NodeId, Delta]]]
    ) -> None:
        for producer, _ in inbox.pop(node.id, []):
            buffer = self._buffers.get(producer)
            if buffer is not None:
                consumers = self.dag.shared_stages()[producer].consumer_nodes
                buffer.consume(consumers.index(node.id))

    def _drain(self) -> None:
        """Free what an aborted epoch left behind."""
        for buffer in self._buffers.values():
            for consumer in range(buffer.consumer_count):
                while buffer.consume(consumer) is not None:
                    pass

    def close(self) -> None:
        """End the worker threads."""
        self._pool.shutdown(wait=True)


def _release(delta: Delta) -> None:
    delta.release()


def named_error(node: str, error: BaseException) -> BaseException:
    """Say at which node an error arose; errors of ours say so already."""
    if isinstance(error, LaminarError) or not isinstance(error, Exception):
        return error
    named = OperatorError(node, first_sentence(error))
    named.__cause__ = error
    return named
