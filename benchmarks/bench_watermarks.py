"""Watermarks: one step of a source, carried through a thousand views."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from benchmarks.report import Row, best_ns
from laminar.mv import CascadingWatermarkTracker, MaterializedView, MvRegistry

VIEWS = 1_000
BATCH = 50
"""Updates per round."""

Shape = Callable[[int], list[int]]
"""What view number n reads; 0 is the table, views count from 1."""


def chain(view: int) -> list[int]:
    """Each view reads the one before."""
    return [view - 1]


def fan_out(_view: int) -> list[int]:
    """Every view reads the table."""
    return [0]


def diamonds(view: int) -> list[int]:
    """Two views over the last diamond, then one that joins the two, and so on."""
    return [view - 2, view - 1] if view % 3 == 0 else [view - (view - 1) % 3 - 1]


SHAPES: dict[str, Shape] = {"chain": chain, "fan-out": fan_out, "diamonds": diamonds}


def run() -> list[Row]:
    """Return all figures of this file."""
    return [propagation(name, shape) for name, shape in SHAPES.items()] + [idleness()]


def views_of(shape: Shape) -> MvRegistry:
    """Register the table "0" and the views over it."""
    registry = MvRegistry()
    registry.register_base_table("0")
    for view in range(1, VIEWS + 1):
        sources = [str(source) for source in shape(view)]
        registry.register(MaterializedView(str(view), "", sources))
    return registry


def propagation(name: str, shape: Shape) -> Row:
    """Advance the source again and again, so that every view moves each time."""
    tracker = CascadingWatermarkTracker(views_of(shape))
    times = count(1)
    each = best_ns(lambda: tracker.update_watermark("0", next(times)), calls=BATCH) / VIEWS
    return Row(f"watermark propagation, {name}", each, "ns/view", f"{VIEWS:,} views, all move")


def idleness() -> Row:
    """Mark the source idle and active again, and advance it once: the plan is compiled anew."""
    tracker = CascadingWatermarkTracker(views_of(diamonds))
    times = count(1)

    def flap() -> None:
        tracker.mark_idle("0")
        tracker.mark_active("0")
        tracker.update_watermark("0", next(times))

    return Row("idle, active, update", best_ns(flap, calls=5) / 1e6, "ms", f"{VIEWS:,} views")
