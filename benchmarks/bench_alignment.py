"""What a barrier costs at a node with several inputs."""

from __future__ import annotations

from benchmarks.report import Row, best_ns
from laminar import BarrierAligner
from laminar.model.ids import EdgeId, NodeId


def run() -> list[Row]:
    """Measure the alignment of one barrier at one node, by how many inputs it has."""
    return [_at(inputs) for inputs in (2, 4, 8)]


def _at(inputs: int) -> Row:
    node = NodeId(0)
    aligner = BarrierAligner({node: inputs})
    edges = [EdgeId(edge) for edge in range(inputs)]

    def align() -> None:
        for edge in edges:
            aligner.receive_barrier(node, edge, 1)
        aligner.complete_checkpoint(node, 1)

    spent = best_ns(align, calls=10_000) / 1000
    return Row("barrier alignment", spent, "us", f"{inputs} inputs of a fan-in node")
