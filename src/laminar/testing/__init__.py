"""The truth, for tests: a view equals its query run over the rows that are there now."""

from laminar.testing.bags import assert_same_bag, difference
from laminar.testing.clock import ManualClock
from laminar.testing.live import LiveRows
from laminar.testing.oracle import Oracle
from laminar.testing.typer import FixedTyper

__all__ = ["FixedTyper", "LiveRows", "ManualClock", "Oracle", "assert_same_bag", "difference"]
