"""Runs epochs over the DAG: node by node, independent ones side by side, one behind the other."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from laminar.dag import (
    BarrierAligner,
    CheckpointBarrier,
    DagNode,
    MulticastBuffer,
    SharedStageMetadata,
    StreamingDag,
)
from laminar.errors import DagError, LaminarError, OperatorError, WriteWithinEpoch
from laminar.model.ids import EdgeId, NodeId
from laminar.runtime.epoch.flight import DeltaNotice, Flight, NodeTask
from laminar.runtime.spark.error_translation import first_sentence
from laminar.runtime.spark.lifeline import Lifeline

_LOG = logging.getLogger("laminar.epochs")
_CLOSED = "an epoch was on its way when its executor was closed"

Snapshot = Callable[[CheckpointBarrier, NodeId], object]
"""Told when a node has finished the epoch that carries a barrier."""


@dataclass(slots=True)
class DagExecutorMetrics:
    """Counters since the executor was built."""

    epochs: int = 0
    events_processed: int = 0
    """Rows of changes that nodes have taken in, with weights as they come."""
    events_per_node: dict[str, int] = field(default_factory=dict)
    barriers_processed: int = 0
    """Barriers that have passed all nodes."""
    executions: dict[str, int] = field(default_factory=dict)
    multicast_publishes: int = 0
    backpressure_waits: int = 0
    """How often an output had to wait until the slowest reader of a shared stage was done."""
    most_in_flight: int = 0
    node_ms: dict[str, float] = field(default_factory=dict)
    node_rows: dict[str, int] = field(default_factory=dict)


class DagExecutor:
    """Carries deltas along the edges of one topology.

    A node runs epoch e when all its inputs have delivered e (the aligner knows) and the node
    itself is done with e - 1; it is passed by if nothing that it reads has changed. So several
    epochs may be in flight, and every node still sees them one at a time, in order. The routing
    table says where an output goes: to one consumer it is handed over, to several it is published
    once, and the last of them to finish frees it. An output for which there is no room waits, and
    with it the node that made it, and so on back to the source.
    """

    def __init__(
        self,
        dag: StreamingDag,
        *,
        workers: int = 4,
        capacity: int = 4,
        on_snapshot: Snapshot | None = None,
        lifeline: Lifeline | None = None,
    ) -> None:
        self.dag = dag
        self._lifeline = lifeline or Lifeline()
        self.metrics = DagExecutorMetrics()
        self.aligner = BarrierAligner(
            {node.id: len(node.inputs) for node in dag.nodes.values() if len(node.inputs) > 1}
        )
        self.on_snapshot = on_snapshot
        self._routing = dag.routing_table
        self._buffers: dict[NodeId, MulticastBuffer[DeltaNotice]] = {
            node: MulticastBuffer(capacity, shared.consumer_count, on_free=_release)
            for node, shared in dag.shared_stages().items()
        }
        self._consumers: dict[EdgeId, tuple[MulticastBuffer[DeltaNotice], int]] = {
            edge: (self._buffers[node], place)
            for node in self._buffers
            for place, edge in enumerate(dag.nodes[node].outputs)
        }
        self._order = {node: place for place, node in enumerate(dag.execution_order())}
        self._flights: deque[Flight] = deque()
        self._launched = 0
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="laminar-node")
        self._lock = threading.Lock()

    def launch(
        self,
        task: NodeTask,
        sources: Mapping[str, DeltaNotice],
        in_motion: Collection[str] = (),
        barrier: CheckpointBarrier | None = None,
        before: Callable[[], object] | None = None,
    ) -> Flight:
        """Send an epoch on its way, behind those that are; nobody waits for it yet.

        Args:
            task: the work at each node.
            sources: what changed.
            in_motion: nodes that time sets in motion, whether or not their inputs changed.
            barrier: what travels with it.
            before: called first, while no node of an earlier epoch finishes.
        """
        with self._lock:
            if before is not None:
                before()
            self._launched += 1
            flight = Flight(
                self._launched, task, sources, frozenset(in_motion), set(self.dag.nodes), barrier
            )
            flight.outlast = self._lifeline.outlast
            flight.aligned.update(self.dag.sources())
            self._flights.append(flight)
            self.metrics.most_in_flight = max(self.metrics.most_in_flight, len(self._flights))
            try:
                self._advance()
            except BaseException as error:
                self._abandon("launch", error)
                raise
        return flight

    def shared_stages(self) -> dict[NodeId, SharedStageMetadata]:
        """Return the shared stages, with how far each consumer has come."""
        return {
            node: replace(each, consumer_watermarks=self._buffers[node].positions)
            for node, each in self.dag.shared_stages().items()
        }

    @property
    def in_flight(self) -> int:
        """How many epochs are on their way."""
        return len(self._flights)

    def _advance(self) -> None:
        """Start all that can start, until nothing more can; called with the lock held."""
        moved = True
        while moved:
            moved = False
            before: Flight | None = None
            for flight in tuple(self._flights):
                moved |= self._unpark(flight)
                ready = self._begin(flight, before)
                moved |= ready is not None
                if ready:
                    self._start(flight, ready)
                before = flight
            moved |= self._land()

    def _begin(self, flight: Flight, before: Flight | None) -> list[DagNode] | None:
        """Return the nodes to start; those that nothing concerns are passed. None: no progress."""
        if flight.is_called_off:
            return None
        behind = self._with_siblings(before.left) if before is not None else ()
        free = [node for node in flight.aligned if node not in behind]
        if not free:
            return None
        ready: list[DagNode] = []
        for node_id in sorted(free, key=self._order.__getitem__):
            node = self.dag.nodes[node_id]
            flight.aligned.discard(node_id)
            self.aligner.complete_checkpoint(node_id, flight.number)
            if self._is_touched(flight, node):
                ready.append(node)
            elif flight.barrier is not None and self.on_snapshot is not None:
                # A snapshot is a user's code: not here, with the lock held.
                flight.running += 1
                self._pool.submit(self._pass_by, flight, node)
            else:
                self._release_inputs(flight, node_id)
                self._hand_on(flight, node, flight.sources.get(node.name))
        return ready

    def _is_touched(self, flight: Flight, node: DagNode) -> bool:
        touched = node.id in flight.inbox or node.name in flight.in_motion
        return bool(node.inputs) and touched and node.id not in flight.skipped

    def _with_siblings(self, nodes: set[NodeId]) -> set[NodeId]:
        """Return nodes and those that read the same: they start together, to share a scan."""
        inputs = {self.dag.upstream(node) for node in nodes if self.dag.nodes[node].inputs}
        return nodes | {each for each in self.dag.nodes if self.dag.upstream(each) in inputs}

    def _start(self, flight: Flight, ready: list[DagNode]) -> None:
        try:
            flight.task.prepare(ready)
        except Exception as error:  # of all of them, and raised where the epoch is waited for
            for node in ready:
                self._close(flight, node, None, error)
            return
        for node in ready:
            flight.running += 1
            deltas = [delta for _, delta in flight.inbox.get(node.id, [])]
            self._pool.submit(self._run_node, flight, node, deltas)

    def _run_node(self, flight: Flight, node: DagNode, deltas: list[DeltaNotice]) -> None:
        started = time.perf_counter()
        delta: DeltaNotice | None = None
        failure: BaseException | None = None
        try:
            delta = flight.task.run(node, deltas)
            self._report(flight, node)
        except BaseException as error:
            failure = error  # raised where the epoch is waited for
        with self._lock:
            name = node.name
            self.metrics.executions[name] = self.metrics.executions.get(name, 0) + 1
            taken = sum(each.rows for each in deltas)
            self.metrics.events_processed += taken
            self.metrics.events_per_node[name] = self.metrics.events_per_node.get(name, 0) + taken
            self.metrics.node_ms[name] = (time.perf_counter() - started) * 1000
            self.metrics.node_rows[name] = delta.rows if delta else 0
            self._land_node(flight, node, None if failure else delta, failure)

    def _pass_by(self, flight: Flight, node: DagNode) -> None:
        """Let a barrier pass a node that nothing concerns."""
        failure: BaseException | None = None
        try:
            self._report(flight, node)
        except BaseException as error:
            failure = error
        with self._lock:
            self._land_node(flight, node, flight.sources.get(node.name), failure)

    def _report(self, flight: Flight, node: DagNode) -> None:
        """Take a node's snapshot, before the next epoch may reach the node."""
        if flight.barrier is not None and self.on_snapshot is not None and not flight.failures:
            self.on_snapshot(flight.barrier, node.id)

    def _land_node(
        self,
        flight: Flight,
        node: DagNode,
        delta: DeltaNotice | None,
        failure: BaseException | None,
    ) -> None:
        """Go on behind a node that has run; whatever goes wrong here ends the flight."""
        flight.running -= 1
        try:
            self._close(flight, node, delta, failure)
            self._advance()
        except BaseException as error:
            self._abandon(node.name, error)

    def _abandon(self, node: str, error: BaseException) -> None:
        """Call off all that is on its way: nobody may wait for what will never come."""
        for flight in tuple(self._flights):
            flight.failures = flight.failures or {node: named_error(node, error)}
            flight.is_called_off = True
            if not flight.running:
                self._flights.remove(flight)
                flight.end()

    def _close(
        self,
        flight: Flight,
        node: DagNode,
        delta: DeltaNotice | None,
        failure: BaseException | None,
    ) -> None:
        self._release_inputs(flight, node.id)
        if failure is not None:
            self._fail(flight, node, failure)
        self._hand_on(flight, node, delta)

    def _hand_on(self, flight: Flight, node: DagNode, delta: DeltaNotice | None) -> None:
        """Let a node's readers know that it is done with the epoch, and what came of it."""
        entry = self._routing.route(node.id, 0)
        if delta is not None and entry.is_multicast:
            buffer = self._buffers[node.id]
            if buffer.is_full:
                self.metrics.backpressure_waits += 1
                flight.parked.append((node, delta))
                return
            try:
                delta = flight.task.share(node, delta)
                buffer.publish(delta)
                self.metrics.multicast_publishes += 1
            except Exception as error:  # raised where the epoch is waited for
                self._fail(flight, node, error)
                delta = None
        for edge, target in zip(entry.edges, entry.targets, strict=True):
            if delta is not None:
                flight.inbox.setdefault(target, []).append((edge, delta))
            if self.aligner.receive_barrier(target, edge, flight.number):
                flight.aligned.add(target)
        flight.left.discard(node.id)
        flight.task.finished(node)

    def _unpark(self, flight: Flight) -> bool:
        """Try again to hand on what had no room."""
        waiting, flight.parked = flight.parked, []
        for node, delta in waiting:
            if self._buffers[node.id].is_full:
                flight.parked.append((node, delta))
            else:
                self._hand_on(flight, node, delta)
        return len(flight.parked) < len(waiting)

    def _fail(self, flight: Flight, node: DagNode, error: BaseException) -> None:
        """Note a failure: what depends on the node is passed by, and later epochs are called off.

        Nodes that do not depend on it run all the same, so that the caller may keep them.
        """
        failed = flight.failures | {node.name: named_error(node.name, error)}
        nodes = (self.dag.nodes[each].name for each in self._order)
        flight.failures = {name: failed[name] for name in nodes if name in failed}
        flight.skipped |= self._dependents(node.id)
        for later in tuple(self._flights)[self._flights.index(flight) + 1 :]:
            later.is_called_off = True

    def _dependents(self, node: NodeId) -> set[NodeId]:
        found: set[NodeId] = set()
        stack = [node]
        while stack:
            for reader in self.dag.downstream(stack.pop()):
                if reader not in found:
                    found.add(reader)
                    stack.append(reader)
        return found

    def _release_inputs(self, flight: Flight, node: NodeId) -> None:
        self._release_edges(edge for edge, _ in flight.inbox.pop(node, []))

    def _release_edges(self, edges: Iterable[EdgeId]) -> None:
        for edge in edges:
            if edge in self._consumers:
                buffer, place = self._consumers[edge]
                buffer.consume(place)

    def _land(self) -> bool:
        """End the flights that are over, the oldest first: buffers are read in order."""
        landed = False
        while self._flights:
            flight = self._flights[0]
            stands = flight.left and not flight.is_called_off
            if stands or flight.running:
                break
            for node in self.dag.nodes:
                self.aligner.complete_checkpoint(node, flight.number)
            for _, delta in flight.parked:
                _release(delta)
            for waiting in tuple(flight.inbox):
                self._release_inputs(flight, waiting)
            self._flights.popleft()
            is_done = not flight.failures and not flight.is_called_off
            self.metrics.epochs += is_done
            self.metrics.barriers_processed += is_done and flight.barrier is not None
            flight.end()
            landed = True
        return landed

    def close(self) -> None:
        """Wait for what runs, unless it was left behind, and end the threads; nobody waits then."""
        self._pool.shutdown(wait=not any(each.is_left for each in self._flights))
        with self._lock:
            self._abandon("the executor", DagError(_CLOSED, hint="call again"))


class CurrentExecutor:
    """The executor of the DAG as it is defined now, built by the first epoch that asks.

    Args:
        dag: the topology.
        on_snapshot: told when a node has finished an epoch that carries a barrier.
        lifeline: of the Spark that nodes wait for.
    """

    def __init__(
        self,
        dag: Callable[[], StreamingDag],
        on_snapshot: Snapshot,
        lifeline: Lifeline | None = None,
    ) -> None:
        self._dag = dag
        self._lifeline = lifeline
        self._on_snapshot = on_snapshot
        self._built: DagExecutor | None = None

    @property
    def metrics(self) -> DagExecutorMetrics | None:
        """What it counted since the definitions changed last; None if no epoch ran since."""
        return None if self._built is None else self._built.metrics

    def shared_stages(self) -> dict[str, dict[str, int]]:
        """Return stage -> reader -> how many of its changes that reader is done with."""
        if self._built is None:
            return {}
        nodes = self._built.dag.nodes
        return {
            nodes[stage].name: {
                nodes[reader].name: position
                for reader, position in zip(
                    each.consumer_nodes, each.consumer_watermarks, strict=True
                )
            }
            for stage, each in self._built.shared_stages().items()
        }

    def get(self) -> DagExecutor:
        """Return what runs the DAG as it is defined now."""
        if self._built is None:
            self._built = DagExecutor(
                self._dag(), on_snapshot=self._on_snapshot, lifeline=self._lifeline
            )
        return self._built

    def forget(self) -> None:
        """End its threads; the next epoch builds another one."""
        if self._built is not None:
            self._built.close()
            self._built = None


def _release(delta: DeltaNotice) -> None:
    """Let go of a delta; that this fails is no reason to fail an epoch that is done with it."""
    try:
        delta.release()
    except Exception as error:
        _LOG.warning("the shared delta of %s is not released: %s", delta.relation, error)


def named_error(node: str, error: BaseException) -> BaseException:
    """Say at which node an error arose; errors of ours say so already, or are about the node."""
    is_ours = isinstance(error, LaminarError) and not isinstance(error, WriteWithinEpoch)
    if is_ours or not isinstance(error, Exception):
        return error
    named = OperatorError(node, first_sentence(error))
    named.__cause__ = error
    return named
