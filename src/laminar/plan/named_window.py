"""What GROUP BY window(...) calls its key: `window` and `window.start` name it, as in Spark."""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.scope import Scope

_CALLS = ("window", "session_window")


def with_window_written(query: exp.Select, scope: Scope) -> exp.Select:
    """Return the query with the call in place of its name; a column called so comes first."""
    query = query.copy()
    calls = {_name(each): each.copy() for each in _keys(query) if _name(each) in _CALLS}
    for column in list(query.find_all(exp.Column)) if calls else ():
        call = calls.get(column.parts[0].name.lower())
        if call is None or column.parent_select is not query or scope.lookup(column) is not None:
            continue
        written: exp.Expr = call.copy()
        for field in column.parts[1:]:
            written = exp.Dot(this=written, expression=field.copy())
        column.replace(written)
    return query


def _keys(query: exp.Select) -> list[exp.Expr]:
    group = query.args.get("group")
    return list(group.expressions) if group is not None else []


def _name(key: exp.Expr) -> str:
    return key.name.lower() if isinstance(key, exp.Anonymous) else ""
