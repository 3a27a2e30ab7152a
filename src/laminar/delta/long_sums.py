"""Sums of BIGINT that are exact, whatever comes and goes on the way.

A sum of a delta, or of some partial rows, may outgrow BIGINT though the group's does not: taking
back -2^63 is one. So values are added up in halves, and a sum is kept as

    sum = low + carry * 2^64        low is a BIGINT

The carry is nearly always 0. A group whose carry is not is out of range, as it is to Spark.
"""

from __future__ import annotations

LONG, CARRY = "long", "carry"
_LOW_HALF = "4294967295L"
_HALF = "4294967296L"
_SIGN = "2147483648L"
_GREATEST = "9223372036854775807L"


def low_of(value: str, weight: str | None) -> str:
    """Render the low part of a sum; `weight` is how often a value counts, by default once."""
    low = _low(value, weight)
    return f"(SHIFTLEFT({_high(value, weight)}, 32) | ({low} & {_LOW_HALF}))"


def carry_of(value: str, weight: str | None, carry: str | None = None) -> str:
    """Render the carry of a sum; values that are sums have carries themselves."""
    high = _high(value, weight)
    if carry is not None:
        high += f" + {_total(carry, weight)} * {_HALF}"
    return f"SHIFTRIGHT({high} + {_SIGN}, 32)"


def within_range(low: str, carry: str) -> str:
    """Render the sum; where it outgrew its type, fail (or wrap) as Spark does."""
    over = f"ABS({carry})"
    return (
        f"IF(COALESCE({carry}, 0L) = 0L, {low}, "
        f"{_GREATEST} + {over} - {_GREATEST} - {over} + {low})"
    )


def _high(value: str, weight: str | None) -> str:
    return f"{_total(f'SHIFTRIGHT({value}, 32)', weight)} + SHIFTRIGHT({_low(value, weight)}, 32)"


def _low(value: str, weight: str | None) -> str:
    return _total(f"({value} & {_LOW_HALF})", weight)


def _total(value: str, weight: str | None) -> str:
    return f"COALESCE(SUM({value}{'' if weight is None else f' * {weight}'}), 0L)"
