"""A decimal as often as a weight says, with all of its digits.

Spark's own operators drop some at the end of DECIMAL(38,s): `-x` keeps 34 digits, a sum has scale
s - 1, a product has less. Only up to scale 6 the type of a product keeps all.
"""

from __future__ import annotations

from laminar.delta.decimal_averages import digits_of

_MOST_DIGITS = 38
_KEPT_SCALE = 6
"""Spark's `MINIMUM_ADJUSTED_SCALE`: what is too wide drops fractions down to it, and no further."""


def decimal_product(value: str, weight: str, kind: str) -> str:
    """Render value times weight as a DECIMAL(38,s); what is out of range fails as in Spark."""
    digits = digits_of(kind)
    if digits is None:
        raise ValueError(f"{kind} is no decimal")
    plain = f"CAST({value} AS {kind})"
    if digits[1] <= _KEPT_SCALE:
        return f"{plain} * {weight}"
    return (
        f"CASE WHEN {weight} = 1 THEN {plain} WHEN {weight} = 0 THEN CAST(0 AS {kind}) "
        f"WHEN {weight} = -1 THEN {_negative(value, digits[1])} "
        f"ELSE {_in_whole_units(value, weight, digits[1])} END"
    )


def _negative(value: str, scale: int) -> str:
    """Take a value from 0; what has room for one more digit does so without a text."""
    text = _in_whole_units(value, "-1", scale)
    if scale == _MOST_DIGITS:
        return text
    room = f"DECIMAL(37,{scale})"
    return f"COALESCE(CAST(0 AS {room}) - TRY_CAST({value} AS {room}), {text})"


def _in_whole_units(value: str, weight: str, scale: int) -> str:
    """Count in units of the last digit, for which a product of whole numbers is exact."""
    return of_last_digits(f"{last_digits(value, scale)} * {weight}", scale)


def last_digits(value: str, scale: int) -> str:
    """Render how many units of its last digit a value with a scale is.

    Its digits come from `format_number`: a cast to STRING writes 1E-10 where ANSI is off.
    """
    return f"CAST(REGEXP_REPLACE(FORMAT_NUMBER({value}, {scale}), '[,.]', '') AS DECIMAL(38,0))"


def of_last_digits(units: str, scale: int) -> str:
    """Render the value that is so many units of its last digit."""
    return f"CAST(CONCAT(CAST({units} AS STRING), 'E-{scale}') AS DECIMAL(38,{scale}))"
