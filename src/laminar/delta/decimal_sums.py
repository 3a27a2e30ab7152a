"""Sums of wide decimals that are exact, whatever comes and goes on the way.

A sum of a delta, or of some partial rows, may outgrow DECIMAL(38,s) though the group's does not.
So a value is taken apart, and its parts are added up by themselves:

    value = high * unit + low       unit is 10^20 of the last digit

|high| < 10^18 and |low| < unit, so both sums have room for 10^18 rows, and both are linear. A sum
that fits its type is what the parts make together; one that does not fails or is NULL, as in Spark.
"""

from __future__ import annotations

from laminar.delta.decimal_averages import digits_of
from laminar.delta.decimal_products import last_digits, of_last_digits

WHOLE = "decimal(38,0)"
_MOST_DIGITS = 38
_UNIT_DIGITS = 20
_HIGH_DIGITS = _MOST_DIGITS - _UNIT_DIGITS
_ROWS_DIGITS = 19
"""Of 2^63: no group has more rows."""


def outgrows(kind: str) -> bool:
    """Whether a sum of values of a type may have more than 38 digits."""
    digits = digits_of(kind)
    return digits is not None and digits[0] + _ROWS_DIGITS > _MOST_DIGITS


def low_of(value: str, kind: str) -> str:
    """Render what a value of DECIMAL(p,s) is beyond whole units."""
    return f"({value} % {_unit(kind)})"


def high_of(value: str, kind: str) -> str:
    """Render how many whole units a value of DECIMAL(p,s) is."""
    return f"CAST({value} DIV {_unit(kind)} AS {WHOLE})"


def joined(low: str, high: str, kind: str) -> str:
    """Render the sum that two sums of parts make, of type DECIMAL(38,s).

    What has 37 digits is added up as it is. Spark's `+` would drop a digit of others, so they are
    added as whole numbers, of one sign: they only outgrow their type if the sum does.
    """
    scale = _scale(kind)
    exact = _in_whole_numbers(low, high, kind)
    if scale == _MOST_DIGITS:
        return exact
    room = f"DECIMAL({_MOST_DIGITS - 1},{scale})"
    units = f"TRY_CAST({high} AS DECIMAL({_HIGH_DIGITS - 1},0)) * {_unit(kind)}"
    return f"COALESCE(CAST({units} AS {room}) + TRY_CAST({low} AS {room}), {exact})"


def _in_whole_numbers(low: str, high: str, kind: str) -> str:
    scale = _scale(kind)
    units = f"({high} + {high_of(low, kind)})"
    sign = f"CAST(SIGN({units}) AS INT)"
    unit = f"CAST('1E{_UNIT_DIGITS}' AS {WHOLE})"
    rest = last_digits(low_of(low, kind), scale)
    # One unit of those goes to the rest, which then has their sign.
    return of_last_digits(f"({units} - {sign}) * {unit} + ({rest} + {sign} * {unit})", scale)


def _unit(kind: str) -> str:
    power = _UNIT_DIGITS - _scale(kind)
    digits = f"{power + 1},0" if power >= 0 else f"{-power},{-power}"
    return f"CAST('1E{power}' AS DECIMAL({digits}))"


def _scale(kind: str) -> int:
    digits = digits_of(kind)
    if digits is None:
        raise ValueError(f"{kind} is no decimal")
    return digits[1]
