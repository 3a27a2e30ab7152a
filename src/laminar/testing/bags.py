"""Rows compared as bags: order does not matter, copies do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]

RELATIVE = 1e-9
"""How far two doubles may be apart: sums of doubles depend on the order of their terms."""


def assert_same_bag(
    actual: Iterable[Sequence[Any]],
    expected: Iterable[Sequence[Any]],
    *,
    relative: float = RELATIVE,
) -> None:
    """Fail unless both hold the same rows equally often.

    Doubles agree within a relative tolerance; everything else is the same by its bytes: -0.0 is not
    0.0, and all NaNs are one. Python does not show in which order a map has its entries.
    """
    missing, surplus = difference(actual, expected, relative=relative)
    if missing or surplus:
        raise AssertionError(f"missing {_some(missing)}; not expected {_some(surplus)}")


def difference(
    actual: Iterable[Sequence[Any]],
    expected: Iterable[Sequence[Any]],
    *,
    relative: float = RELATIVE,
) -> tuple[list[Row], list[Row]]:
    """Return the rows that are missing and those that are there for no reason."""
    left, right = _counted(actual), _counted(expected)
    surplus = [row for key, (row, n) in left.items() for _ in range(n - _copies(right, key))]
    missing = [row for key, (row, n) in right.items() for _ in range(n - _copies(left, key))]
    return _unmatched(missing, surplus, relative)


def frozen(value: Any) -> Hashable:
    """Return a value that equals another one just if the two are the same: `model/same_row.py`."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Mapping):
        entries = [(frozen(key), frozen(each)) for key, each in value.items()]
        return ("map", frozenset(Counter(entries).items()))
    if isinstance(value, tuple | list):
        return tuple(frozen(each) for each in value)
    if isinstance(value, bytearray):
        return bytes(value)
    found: Hashable = value
    return found


def _counted(rows: Iterable[Sequence[Any]]) -> dict[Hashable, tuple[Row, int]]:
    found: dict[Hashable, tuple[Row, int]] = {}
    for row in rows:
        key = frozen(tuple(row))
        found[key] = (tuple(row), found[key][1] + 1 if key in found else 1)
    return found


def _copies(rows: dict[Hashable, tuple[Row, int]], key: Hashable) -> int:
    return rows[key][1] if key in rows else 0


def _unmatched(
    missing: list[Row], surplus: list[Row], relative: float
) -> tuple[list[Row], list[Row]]:
    """Pair rows that differ only in the last digits of doubles; return those left over."""
    rest = list(surplus)
    lonely = []
    for row in missing:
        at = next((at for at, each in enumerate(rest) if _close(row, each, relative)), None)
        if at is None:
            lonely.append(row)
        else:
            del rest[at]
    return lonely, rest


def _close(a: Any, b: Any, relative: float) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        if a == 0 and b == 0:
            return frozen(a) == frozen(b)
        return frozen(a) == frozen(b) or math.isclose(a, b, rel_tol=relative, abs_tol=1e-12)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(_close(x, y, relative) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_close(a[key], b[key], relative) for key in a)
    return frozen(a) == frozen(b)


def _some(rows: list[Row]) -> str:
    shown = ", ".join(map(str, rows[:4]))
    return f"{len(rows)} rows ({shown}{', ...' if len(rows) > 4 else ''})" if rows else "nothing"
