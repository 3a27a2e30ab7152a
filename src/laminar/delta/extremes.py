"""MIN and MAX that are one value, also of values that are equal to Spark but not the same.

Of 0.0 and -0.0, or of spellings that a collation takes for equal, Spark answers what it meets
first. Here the least (for MAX the greatest) by bytes counts, and -0.0 is less than 0.0: so the
answer depends on the rows alone, and stays right when one of them is taken back.
"""

from __future__ import annotations

from laminar.model.same_row import as_text, collation_of, is_minus_zero


def extreme(function: str, value: str, kind: str) -> str:
    """Render MIN or MAX of a value; `kind` is empty for types whose equal values are the same."""
    if not kind:
        return f"{function}({value})"
    if kind in ("float", "double"):
        return _of_numbers(function, value, kind)
    collation = collation_of(kind)
    code = as_text(value) if collation is None else f"({value} COLLATE UTF8_BINARY)"
    pair = f"{function}(IF({value} IS NULL, NULL, NAMED_STRUCT('k', {value}, 'b', {code})))"
    return f"{pair}.k"


def _of_numbers(function: str, value: str, kind: str) -> str:
    """No struct here: Spark's hash table would not take it."""
    minus = is_minus_zero(value)
    is_minus = f"MAX({minus})" if function == "MIN" else f"MIN(IF({value} = 0, {minus}, NULL))"
    found = f"{function}({value})"
    return f"IF({found} = 0 AND {is_minus}, CAST('-0.0' AS {kind}), {found} + CAST(0 AS {kind}))"
