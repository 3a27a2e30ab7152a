"""Sessions: groups of rows, each at most a gap after the one before it.

    D  = sessions of the changed rows alone
    A  = stored sessions that touch one of D        (two that are a gap apart touch)
    ΔU = merge(A + D) − A                            if rows only came
       = sessions(rows of A, after the change) − A   if rows went, since a session may fall apart

A session that touches no changed row stays what it is, so nothing else is read. Sessions that end
before the horizon are final: they are no part of U, and one that would come to be there is late.
"""

from __future__ import annotations

from laminar.delta.change import Change, Version, bag, columns, consolidate, quote, table
from laminar.delta.lateness import below
from laminar.delta.program import Sessioned
from laminar.model.trace import WEIGHT


def resession(
    relation: Sessioned,
    given: Change,
    *,
    existed: bool,
    final: int | None = None,
    may_be_late: bool = False,
) -> str:
    """ΔU.

    Args:
        relation: the sessions.
        given: their rows.
        existed: there were sessions before.
        final: sessions that end before this are final, and their rows may be dropped already.
        may_be_late: rows may be in sessions that are final.
    """
    assert given.delta is not None
    names = relation.shape.columns
    changed = given.delta
    if not given.insert_only:
        changed = consolidate(changed, relation.inputs)
    touched = _touched(relation, changed, final) if existed else None
    merges = given.insert_only and relation.accumulators is not None
    if touched is None:
        fresh = _sessions(relation, changed, positive=given.insert_only)
    elif merges:
        fresh = _merged(relation, changed, touched)
    else:
        fresh = _sessions(relation, _rows(relation, given, touched), positive=False)
    if may_be_late and final is not None:
        fresh = f"SELECT * FROM ({fresh}) WHERE NOT ({below(f'{relation.node.window}.end', final)})"
    parts = [f"SELECT {columns(names)}, 1L AS {WEIGHT} FROM ({fresh})"]
    if touched is not None:
        parts.append(f"SELECT {columns(names)}, -{WEIGHT} AS {WEIGHT} FROM ({touched})")
    return consolidate("\nUNION ALL\n".join(parts), relation.shape.row)


def _window(relation: Sessioned) -> str:
    return f"SESSION_WINDOW({relation.node.time}, '{relation.node.gap}')"


def _keyed(relation: Sessioned, *more: str) -> str:
    return ", ".join((*(quote(key) for key in relation.node.keys), *more))


def _sessions(relation: Sessioned, rows: str, *, positive: bool) -> str:
    """Sessions of weighted rows."""
    node = relation.node
    if relation.accumulators is not None:
        folds = [f"{each.partial} AS {each.name}" for each in relation.accumulators.all]
        having = "" if positive else f" HAVING SUM({WEIGHT}) > 0"
    else:
        rows = bag(rows, relation.inputs, positive=positive)
        folds = [f"{call.sql} AS {call.name}" for call in node.calls]
        having = ""
    # The gap as an interval of the calendar, like Spark's own: a day of it is one of the zone, and
    # 24 hours are hours.
    # Not the key itself: Spark would push a test of its end below the grouping, where it is the
    # end of a single row, and leave out rows whose session goes on.
    end = f"MAX({node.time}) + CAST('{node.gap}' AS INTERVAL)"
    whole = f"NAMED_STRUCT('start', MIN({node.time}), 'end', {end})"
    items = _keyed(relation, f"{whole} AS {node.window}", *folds)
    made = f"SELECT {items} FROM ({rows}) GROUP BY {_keyed(relation, _window(relation))}{having}"
    return f"SELECT {_typed(relation)} FROM ({made})"


def _typed(relation: Sessioned) -> str:
    pairs = zip(relation.shape.columns, relation.shape.types, strict=True)
    return ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in pairs)


def _touched(relation: Sessioned, changed: str, final: int | None) -> str:
    """A, with weights."""
    node = relation.node
    marks = (
        f"SELECT {_keyed(relation, f'{_window(relation)} AS __w')} FROM ({changed}) "
        f"GROUP BY {_keyed(relation, _window(relation))}"
    )
    on = " AND ".join(
        (
            *_same(relation, "t", "d"),
            f"t.{node.window}.start <= d.__w.end",
            f"d.__w.start <= t.{node.window}.end",
        )
    )
    own = table(relation.shape.name, Version.BEFORE)
    if final is not None:
        own = f"(SELECT * FROM {own} WHERE NOT ({below(f'{node.window}.end', final)}))"
    return consolidate(
        f"SELECT t.* FROM {own} t LEFT SEMI JOIN ({marks}) d ON {on}", relation.shape.row
    )


def _same(relation: Sessioned, left: str, right: str) -> tuple[str, ...]:
    return tuple(f"{left}.{quote(key)} <=> {right}.{quote(key)}" for key in relation.node.keys)


def _rows(relation: Sessioned, given: Change, touched: str) -> str:
    """Rows of touched sessions after the change, with weights."""
    node = relation.node
    listed = columns(node.input.columns)
    changed = f"SELECT {listed}, {WEIGHT} FROM ({given.delta})"
    parts = [changed]
    if given.before is not None:
        on = " AND ".join(
            (
                *_same(relation, "t", "a"),
                f"a.{node.window}.start <= t.{node.time}",
                f"t.{node.time} < a.{node.window}.end",
            )
        )
        parts.append(
            f"SELECT {columns(node.input.columns, 't.')}, t.{WEIGHT} FROM ({given.before}) t "
            f"LEFT SEMI JOIN ({touched}) a ON {on}"
        )
    # What was too late to count is not there to be taken back either.
    both = consolidate("\nUNION ALL\n".join(parts), relation.inputs)
    return f"SELECT * FROM ({both}) WHERE {WEIGHT} > 0"


def _merged(relation: Sessioned, changed: str, touched: str) -> str:
    """merge(A + D): islands of sessions that touch become one."""
    assert relation.accumulators is not None
    node = relation.node
    listed = columns(relation.shape.columns)
    both = (
        f"SELECT {listed} FROM ({touched})\nUNION ALL\n"
        f"SELECT {listed} FROM ({_sessions(relation, changed, positive=True)})"
    )
    part = f"PARTITION BY {_keyed(relation)} " if node.keys else ""
    window = node.window
    order = f"ORDER BY {window}.start, {window}.end"
    reach = (
        f"MAX({window}.end) OVER ({part}{order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    edges = f"SELECT *, IF({window}.start <= {reach}, 0, 1) AS __new FROM ({both})"
    islands = (
        f"SELECT *, SUM(__new) OVER ({part}{order} ROWS UNBOUNDED PRECEDING) AS __at FROM ({edges})"
    )
    folds = [f"{each.merged(each.name, None)} AS {each.name}" for each in relation.accumulators.all]
    whole = f"NAMED_STRUCT('start', MIN({window}.start), 'end', MAX({window}.end)) AS {window}"
    made = (
        f"SELECT {_keyed(relation, whole, *folds)} FROM ({islands}) "
        f"GROUP BY {_keyed(relation, '__at')}"
    )
    return f"SELECT {_typed(relation)} FROM ({made})"
