"""Epochs in flight: order, alignment, sharing, pushing back, failing; no Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from laminar import BarrierAligner, CheckpointBarrier, DagBuilder, OperatorError, StreamingDag
from laminar.dag import DagNode
from laminar.errors import DagError, SparkLost
from laminar.model.ids import EdgeId, NodeId
from laminar.runtime.epoch.executor import DagExecutor
from laminar.runtime.epoch.flight import DeltaNotice, Flight
from laminar.runtime.spark.lifeline import PATIENCE_WITH_WORK, Lifeline


def diamond() -> StreamingDag:
    return (
        DagBuilder()
        .source("s")
        .operator("a", "SELECT 1")
        .operator("b", "SELECT 1")
        .operator("c", "SELECT 1")
        .operator("d", "SELECT 1")
        .connect("s", "a")
        .connect("a", "b")
        .connect("a", "c")
        .connect("b", "d")
        .connect("c", "d")
        .build()
    )


@dataclass
class Recorder:
    """Writes down what happens; a gate lets a test say when a node goes on."""

    epoch: int
    log: list[tuple[int, str]]
    gates: dict[str, threading.Event] = field(default_factory=dict)
    fails: frozenset[str] = frozenset()
    quiet: frozenset[str] = frozenset()
    released: list[tuple[int, str]] = field(default_factory=list)
    started: dict[str, threading.Event] = field(default_factory=dict)
    prepared: list[list[str]] = field(default_factory=list)

    def prepare(self, nodes: list[DagNode]) -> None:
        self.prepared.append([node.name for node in nodes])

    def run(self, node: DagNode, _inputs: list[DeltaNotice]) -> DeltaNotice | None:
        if node.name in self.started:
            self.started[node.name].set()
        if node.name in self.gates:
            assert self.gates[node.name].wait(10)
        if node.name in self.fails:
            raise ValueError(f"{node.name} cannot")
        self.log.append((self.epoch, node.name))
        return None if node.name in self.quiet else DeltaNotice(node.name, 1)

    def share(self, node: DagNode, delta: DeltaNotice) -> DeltaNotice:
        return DeltaNotice(
            delta.relation, delta.rows, lambda: self.released.append((self.epoch, node.name))
        )

    def finished(self, node: DagNode) -> None:
        self.log.append((self.epoch, f"{node.name}."))


@pytest.fixture
def build() -> Iterator[Callable[..., DagExecutor]]:
    made: list[DagExecutor] = []

    def make(dag: StreamingDag | None = None, **options: object) -> DagExecutor:
        made.append(DagExecutor(dag or diamond(), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


CHANGED = {"s": DeltaNotice("s", 1)}


def test_a_node_sees_epochs_in_order_and_after_its_inputs(
    build: Callable[..., DagExecutor],
) -> None:
    executor = build()
    log: list[tuple[int, str]] = []
    tasks = [Recorder(epoch, log) for epoch in range(1, 21)]
    flights = [executor.launch(task, CHANGED) for task in tasks]
    for flight in flights:
        flight.wait()
    for name in "abcd":
        assert [epoch for epoch, what in log if what == name] == list(range(1, 21))
    for epoch in range(1, 21):
        done = {what: at for at, (e, what) in enumerate(log) if e == epoch}
        assert done["a."] < done["b"]
        assert done["a."] < done["c"]
        assert max(done["b."], done["c."]) < done["d"]
    assert executor.in_flight == 0
    assert executor.aligner.alignments == 20
    assert [task.released for task in tasks] == [[(e, "a")] for e in range(1, 21)]
    assert all(task.prepared == [["a"], ["b", "c"], ["d"]] for task in tasks)


def test_an_epoch_overtakes_nobody_at_a_slow_node_but_goes_on_elsewhere(
    build: Callable[..., DagExecutor],
) -> None:
    dag = (
        DagBuilder()
        .source("s")
        .source("other")
        .operator("b", "SELECT 1")
        .operator("c", "SELECT 1")
        .operator("d", "SELECT 1")
        .connect("s", "b")
        .connect("other", "c")
        .connect("b", "d")
        .connect("c", "d")
        .build()
    )
    changed = {"s": DeltaNotice("s", 1), "other": DeltaNotice("other", 1)}
    executor = build(dag)
    log: list[tuple[int, str]] = []
    gate, reached = threading.Event(), threading.Event()
    first = executor.launch(Recorder(1, log, gates={"b": gate}), changed)
    second = executor.launch(Recorder(2, log, started={"c": reached}), changed)
    assert reached.wait(10)  # c of epoch 2 runs while b of epoch 1 does
    assert (2, "b") not in log
    assert (1, "d") not in log
    assert executor.in_flight == 2
    gate.set()
    first.wait()
    second.wait()
    assert log.index((1, "d")) < log.index((2, "d"))


def test_what_does_not_come_back_when_spark_is_lost_is_left_behind(
    build: Callable[..., DagExecutor],
) -> None:
    lifeline = Lifeline()
    outlast = Outlast(lifeline)
    executor = build(lifeline=outlast)
    log: list[tuple[int, str]] = []
    gate, reached = threading.Event(), threading.Event()
    task = Recorder(1, log, gates={"b": gate}, started={"b": reached})
    flight = executor.launch(task, CHANGED)
    assert reached.wait(10)
    for _ in range(2):  # also who asks again does not wait
        with pytest.raises(SparkLost, match="has not come back"):
            flight.wait()
    assert outlast.tries == PATIENCE_WITH_WORK
    assert lifeline.is_waited_for
    executor.close()  # nobody waits here either
    assert executor.in_flight == 1
    gate.set()
    assert flight._over.wait(10)
    assert not lifeline.is_waited_for
    assert (1, "d") not in log  # it was called off


class Outlast(Lifeline):
    """Spark is dead, and seconds are tries."""

    def __init__(self, real: Lifeline) -> None:
        self.real, self.tries = real, 0
        self.real._death = lambda: "it is dead"  # type: ignore[method-assign]

    def outlast(self, is_over: Callable[[float], bool]) -> None:
        def at_once(_seconds: float) -> bool:
            self.tries += 1
            return is_over(0.0)

        self.real.outlast(at_once)


def test_who_waits_for_an_executor_that_is_closed_is_let_go(
    build: Callable[..., DagExecutor],
) -> None:
    executor = build()
    flight = executor.launch(Recorder(1, []), CHANGED)
    flight.wait()
    stuck = Flight(2, Recorder(2, []), {}, frozenset(), {NodeId(0)})
    executor._flights.append(stuck)
    executor.close()
    with pytest.raises(DagError, match="closed"):
        stuck.wait()


def test_a_full_buffer_holds_back_the_node_that_fills_it(
    build: Callable[..., DagExecutor],
) -> None:
    executor = build(capacity=1)
    log: list[tuple[int, str]] = []
    gate = threading.Event()
    flights = [executor.launch(Recorder(1, log, gates={"c": gate}), CHANGED)]
    ran = [threading.Event() for _ in range(2)]
    flights += [
        executor.launch(Recorder(2 + at, log, started={"a": ran[at]}), CHANGED) for at in range(2)
    ]
    assert ran[0].wait(10)
    # c still has to read epoch 1: a's output of epoch 2 has no place, so epoch 3 cannot reach a.
    assert not ran[1].wait(0.05)
    gate.set()
    for flight in flights:
        flight.wait()
    assert executor.metrics.backpressure_waits >= 1
    assert [each for each in log if each[1] == "d"] == [(1, "d"), (2, "d"), (3, "d")]


def test_a_failure_is_named_and_calls_off_what_came_behind(
    build: Callable[..., DagExecutor],
) -> None:
    executor = build()
    log: list[tuple[int, str]] = []
    gate = threading.Event()
    first = executor.launch(Recorder(1, log, gates={"b": gate}, fails=frozenset("b")), CHANGED)
    second = executor.launch(Recorder(2, log), CHANGED)
    gate.set()
    with pytest.raises(OperatorError, match="b cannot"):
        first.wait()
    second.wait()
    assert second.is_called_off
    assert (1, "c") in log, "what does not depend on the failed node runs"
    assert (1, "d") not in log
    assert (2, "d") not in log
    assert executor.in_flight == 0
    third = Recorder(3, log)
    executor.launch(third, CHANGED).wait()
    assert (3, "d") in log
    assert third.released == [(3, "a")], "no slot of the failed epochs is left behind"


def test_what_nothing_concerns_is_passed_by(build: Callable[..., DagExecutor]) -> None:
    executor = build()
    log: list[tuple[int, str]] = []
    executor.launch(Recorder(1, log, quiet=frozenset("a")), CHANGED).wait()
    assert [what for _, what in log if not what.endswith(".")] == ["a"]
    assert {what for _, what in log if what.endswith(".")} == {"s.", "a.", "b.", "c.", "d."}
    executor.launch(Recorder(2, log), {}, {"c"}).wait()
    assert [what for e, what in log if e == 2 and not what.endswith(".")] == ["c", "d"]


def test_a_barrier_reaches_every_node_once(build: Callable[..., DagExecutor]) -> None:
    dag = diamond()
    seen: list[tuple[int, str]] = []
    executor = build(
        dag,
        on_snapshot=lambda barrier, node: seen.append(
            (barrier.checkpoint_id, dag.nodes[node].name)
        ),
    )
    log: list[tuple[int, str]] = []
    executor.launch(Recorder(1, log), CHANGED).wait()
    executor.launch(Recorder(2, log), CHANGED, (), CheckpointBarrier(7, 0)).wait()
    assert [number for number, _ in seen] == [7] * 5
    assert next(name for _, name in seen) == "s"
    assert [name for _, name in seen][-1] == "d"
    counted = executor.metrics
    assert (counted.epochs, counted.barriers_processed) == (2, 1)
    # a takes one row of s, b and c one of a, d one of each.
    assert counted.events_per_node == {"a": 2, "b": 2, "c": 2, "d": 4}
    assert counted.events_processed == 10
    (shared,) = executor.shared_stages().values()
    assert shared.consumer_watermarks == (2, 2)
    assert dag.shared_stages()[shared.producer_node].consumer_watermarks == ()


def test_a_barrier_of_an_epoch_that_fails_is_not_counted(
    build: Callable[..., DagExecutor],
) -> None:
    executor = build()
    task = Recorder(1, [], fails=frozenset("b"))
    with pytest.raises(OperatorError):
        executor.launch(task, CHANGED, (), CheckpointBarrier(7, 0)).wait()
    assert executor.metrics.barriers_processed == 0


def test_the_aligner_waits_for_every_edge() -> None:
    node, left, right = NodeId(3), EdgeId(1), EdgeId(2)
    aligner = BarrierAligner({node: 2})
    assert not aligner.receive_barrier(node, left, 1)
    assert not aligner.receive_barrier(node, left, 2), "the next barrier is another matter"
    assert aligner.receive_barrier(node, right, 1)
    aligner.complete_checkpoint(node, 1)
    assert aligner.receive_barrier(node, right, 2)
    assert aligner.receive_barrier(NodeId(9), left, 1), "one input needs no waiting"


def test_an_operator_that_cannot_be_snapshot_fails_its_epoch(
    build: Callable[..., DagExecutor],
) -> None:
    dag = diamond()

    def refuse(_barrier: CheckpointBarrier, node: NodeId) -> None:
        if dag.nodes[node].name == "b":
            raise ValueError("no state to give")

    executor = build(dag, on_snapshot=refuse)
    flight = executor.launch(Recorder(1, []), CHANGED, frozenset(), CheckpointBarrier(1, 0))
    with pytest.raises(OperatorError, match="no state to give"):
        flight.wait()
    later = executor.launch(Recorder(2, []), CHANGED)
    later.wait()


def test_a_snapshot_is_taken_without_the_lock_and_before_the_next_epoch_comes(
    build: Callable[..., DagExecutor],
) -> None:
    """A user's code may take long, or use the executor; whether its node runs or is passed by."""
    dag, log = diamond(), list[tuple[int, str]]()
    free: list[bool] = []

    def look(barrier: CheckpointBarrier, node: NodeId) -> None:
        log.append((barrier.checkpoint_id, f"{dag.nodes[node].name}!"))
        free.append(executor._lock.acquire(timeout=10))  # in vain if this thread has it
        executor._lock.release()

    executor = build(dag, on_snapshot=look, workers=1)
    quiet = Recorder(1, log, quiet=frozenset("a"))
    flights = [executor.launch(quiet, CHANGED, (), CheckpointBarrier(1, 0))]
    flights += [
        executor.launch(Recorder(epoch, log), CHANGED, (), CheckpointBarrier(epoch, 0))
        for epoch in (2, 3)
    ]
    for flight in flights:
        flight.wait()
    assert free == [True] * 15
    assert {what for epoch, what in log if epoch == 1 and what.isalpha()} == {"a"}
    for name in "abcd":
        for epoch in (1, 2):
            assert log.index((epoch, f"{name}!")) < log.index((epoch, f"{name}."))
            assert log.index((epoch, f"{name}!")) < log.index((epoch + 1, name))


@dataclass
class Broken(Recorder):
    """Something goes wrong where nobody expects it."""

    breaks: str = ""

    def share(self, _node: DagNode, delta: DeltaNotice) -> DeltaNotice:
        return DeltaNotice(delta.relation, delta.rows, self._release)

    def _release(self) -> None:
        if self.breaks == "release":
            raise ConnectionError("the JVM is gone")

    def finished(self, node: DagNode) -> None:
        super().finished(node)
        if self.breaks == node.name:
            raise ConnectionError("the JVM is gone")


def test_a_delta_that_cannot_be_released_hangs_nobody(build: Callable[..., DagExecutor]) -> None:
    executor, log = build(), list[tuple[int, str]]()
    flights = [executor.launch(Broken(1, log, breaks="release"), CHANGED)]
    flights.append(executor.launch(Recorder(2, log), CHANGED))
    for flight in flights:
        assert flight._over.wait(10)
        flight.wait()
    assert [each for each in log if each[1] == "d"] == [(1, "d"), (2, "d")]


@pytest.mark.parametrize("breaks", ["a", "b", "d"])
def test_an_error_of_our_own_ends_the_flight(
    build: Callable[..., DagExecutor], breaks: str
) -> None:
    executor, log = build(), list[tuple[int, str]]()
    first = executor.launch(Broken(1, log, breaks=breaks), CHANGED)
    assert first._over.wait(10), "whoever waits for it would wait for ever"
    with pytest.raises(OperatorError, match="the JVM is gone"):
        first.wait()
    assert executor.in_flight == 0
    with pytest.raises(ConnectionError):  # it arises on the thread that launches
        executor.launch(Broken(2, log, breaks="s"), CHANGED)
    assert executor.in_flight == 0


class FromJava(Exception):
    """Asks Java what it is about, as errors of Java's do; and Java is gone."""

    def __str__(self) -> str:
        raise ConnectionError("the JVM is gone")


def test_an_error_that_cannot_say_what_it_is_ends_the_flight_too(
    build: Callable[..., DagExecutor],
) -> None:
    class Silent(Recorder):
        def run(self, node: DagNode, inputs: list[DeltaNotice]) -> DeltaNotice | None:
            if node.name == "b":
                raise FromJava
            return super().run(node, inputs)

    flight = build().launch(Silent(1, list[tuple[int, str]]()), CHANGED)
    assert flight._over.wait(10), "whoever waits for it would wait for ever"
    with pytest.raises(OperatorError, match="FromJava"):
        flight.wait()
