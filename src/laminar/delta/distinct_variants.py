"""COUNT(DISTINCT variant), which Spark only runs where it exchanges no rows: it has no hash of one.

What is counted in its place are texts that differ where variants do; see `model/same_row.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from laminar.model.same_row import has_variants, identity
from laminar.plan.nodes import AggCall
from laminar.plan.parse import parse_query
from laminar.plan.scope import text


def by_bytes(call: AggCall, kind_of: Callable[[str], str]) -> AggCall:
    """Return a call that counts variants by their bytes; any other as it is.

    Args:
        call: an aggregate.
        kind_of: the type of an expression over the columns that the call is over.
    """
    if call.function != "other" or "DISTINCT" not in call.sql:
        return call
    query = parse_query(f"SELECT {call.sql}")
    for distinct in list(query.find_all(exp.Distinct)):
        if isinstance(distinct.parent, exp.Count):
            counted = map(text, distinct.expressions)
            made = [part for each in counted for part in _parts(each, kind_of(each))]
            distinct.set("expressions", parse_query(f"SELECT {', '.join(made)}").expressions)
    return replace(call, sql=text(query.expressions[0]))


def _parts(value: str, kind: str) -> list[str]:
    if not has_variants(kind):
        return [value]
    # A NULL is not counted, and its text would be.
    return [f"IF({value} IS NULL, NULL, {each})" for each in identity(value, kind).by]
