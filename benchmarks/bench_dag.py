"""The topology: building it, looking a route up, and handing a value to several readers."""

from __future__ import annotations

from functools import partial

from benchmarks.report import Row, best_ns
from laminar.dag import DagBuilder, MulticastBuffer, StreamingDag
from laminar.model import NodeId

CONSUMERS = 4


def run() -> list[Row]:
    """Return all figures of this file."""
    return [*routing(), *building(), *multicast()]


def ladder(size: int) -> StreamingDag:
    """Build nodes that read their two predecessors each: shared stages and fan-in throughout."""
    builder = DagBuilder().source("n0").operator("n1").connect("n0", "n1")
    for number in range(2, size):
        builder.operator(f"n{number}")
        builder.connect(f"n{number - 1}", f"n{number}").connect(f"n{number - 2}", f"n{number}")
    return builder.build()


def routing() -> list[Row]:
    """Look up one entry; the cost must not depend on the size of the DAG."""
    return [
        Row(
            "routing lookup",
            best_ns(partial(ladder(size).routing_table.route, NodeId(size // 2), 0), calls=100_000),
            "ns",
            f"{size:,} nodes",
        )
        for size in (20, 1_000)
    ]


def building() -> list[Row]:
    """Declare, check, order and route a whole DAG."""
    return [
        Row(
            "topology build",
            best_ns(partial(ladder, size), calls=calls) / 1e6,
            "ms",
            f"{size:,} nodes, {2 * size - 3:,} edges",
        )
        for size, calls in ((20, 100), (1_000, 3))
    ]


def multicast() -> list[Row]:
    """Publish a value and let every consumer read it."""
    buffer: MulticastBuffer[int] = MulticastBuffer(16, CONSUMERS)

    def publish_and_consume() -> None:
        buffer.publish(1)
        for consumer in range(CONSUMERS):
            buffer.consume(consumer)

    each = best_ns(publish_and_consume, calls=20_000) / CONSUMERS
    return [Row("multicast publish + consume", each, "ns", f"per consumer, {CONSUMERS} consumers")]
