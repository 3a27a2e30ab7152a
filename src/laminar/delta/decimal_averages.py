"""Averages of decimals from a sum and a count, with the digits that Spark gives them."""

from __future__ import annotations

import re

_NARROW_DIGITS = 14
_WIDE_DIGITS = 28


def decimal_quotient(precision: int, scale: int) -> str:
    """Divide a sum of DECIMAL(p,s) by a count, to the DECIMAL(p+4,s+4) that AVG yields.

    Spark's division keeps few digits of a wide dividend and would round twice. A narrow sum leaves
    it ten digits to spare; of a wide one the whole part and the rest are divided apart.
    """
    result = f"DECIMAL({precision + 4},{scale + 4})"
    count = "CAST({0} AS DECIMAL(20,0))"
    if precision <= _NARROW_DIGITS:
        return f"CAST(CAST({{1}} AS DECIMAL({precision + 10},{scale})) / {count} AS {result})"
    rest = f"({{1}} % {count})"
    whole = f"CAST(({{1}} - {rest}) / {count} AS {result})"
    return f"CAST({whole} + CAST({rest} / {count} AS {result}) AS {result})"


def averages_exactly(precision: int, scale: int) -> bool:
    """Whether `decimal_quotient` has digits enough for a type."""
    return precision <= _NARROW_DIGITS or (precision <= _WIDE_DIGITS and scale <= 4)


def digits_of(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of a type; None if it is no decimal."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found.group(1)), int(found.group(2))) if found else None
