"""What a benchmark returns, and how time is taken."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure; the note says what it was measured on."""

    name: str
    value: float
    unit: str
    note: str = ""


def best_ns(action: Callable[[], object], *, calls: int = 1, rounds: int = 7) -> float:
    """Return the nanoseconds per call in the best of several rounds, after one to warm up.

    The best round, because noise from the machine only ever adds.
    """
    action()
    gc.collect()
    times = []
    for _ in range(rounds):
        start = perf_counter_ns()
        for _ in range(calls):
            action()
        times.append((perf_counter_ns() - start) / calls)
    return min(times)
