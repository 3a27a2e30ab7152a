"""Consistency groups: finding the diamonds of a DAG and what must commit together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.report import Row, best_ns
from laminar.dag import StreamingDag
from laminar.dag.diamond import compute_consistency_groups
from laminar.mv import MaterializedView, MvRegistry

SIZES = {20: 50, 1_000: 3}
"""Views -> calls per round."""

Shape = Callable[[int], list[int]]
"""What view number n reads; 0 is the table, views count from 1."""


def apart(view: int) -> list[int]:
    """Diamonds of two views and their join, all over the table."""
    return [view - 2, view - 1] if view % 3 == 0 else [0]


def chained(view: int) -> list[int]:
    """Diamonds of two views and their join, each over the last one."""
    return [view - 2, view - 1] if view % 3 == 0 else [view - (view - 1) % 3 - 1]


def with_the_table(view: int) -> list[int]:
    """A chain in which every view reads the table too: n diamonds with n intermediates."""
    return [0, view - 1] if view > 1 else [0]


SHAPES: dict[str, Shape] = {
    "diamonds apart": apart,
    "diamonds chained": chained,
    "chain that rejoins its table": with_the_table,
}


def run() -> list[Row]:
    """Return all figures of this file."""
    return [detection(name, views) for name in SHAPES for views in SIZES]


def dag_of(shape: Shape, views: int) -> StreamingDag:
    """Build the table "0" and the views over it."""
    registry = MvRegistry()
    registry.register_base_table("0")
    for view in range(1, views + 1):
        sources = [str(source) for source in shape(view)]
        registry.register(MaterializedView(str(view), "", sources))
    return StreamingDag.from_mv_registry(registry, max_fan_out=views)


def detection(name: str, views: int) -> Row:
    """Find the groups of a DAG that is already built."""
    dag = dag_of(SHAPES[name], views)
    groups = len(compute_consistency_groups(dag))
    time = best_ns(partial(compute_consistency_groups, dag), calls=SIZES[views])
    return Row(f"group detection, {name}", time / 1e6, "ms", f"{views:,} views, groups: {groups:,}")
