"""Rows that come when their windows are final.

A change to a final window is left out of the delta, and only of the delta: what a window holds was
accepted before it became final, so what is there already needs no second look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from laminar.delta.change import Change, State
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Horizon, Timely


@runtime_checkable
class KnowsTime(Protocol):
    """States of an epoch that know which windows are final."""

    def horizon(self, horizon: Horizon) -> int | None:
        """Return the first end of a window that is not final; None if no row can be late."""
        ...


def below(path: str, bound: int) -> str:
    """Render the test that a time lies before a bound.

    Compared as decimals, because Spark writes other numbers into the code that it compiles, and
    these here differ in every epoch.
    """
    return f"CAST(UNIX_MICROS({path}) AS DECIMAL(20,0)) < {bound}BD"


def delta_timely(node: Timely, given: Change, states: Mapping[str, State]) -> Change:
    """Leave late rows out of the delta."""
    bound = states.horizon(node.horizon) if isinstance(states, KnowsTime) else None
    if bound is None or given.delta is None:
        return given
    rows = f"SELECT * FROM ({given.delta}) WHERE NOT ({below(node.horizon.path, bound)})"
    return Change(given.before, given.after, rows, given.insert_only, given.positive)


def late_rows(rows: str, time: str, is_once: str, bound: int) -> str:
    """Return the rows of a delta whose windows are all final."""
    test = f"{below(time, bound)} AND {is_once}"
    return f"SELECT * FROM ({rows}) WHERE {test} AND {WEIGHT} <> 0"
