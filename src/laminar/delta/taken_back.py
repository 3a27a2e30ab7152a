"""Rows that a source takes back, and which of their copies go.

Law: with S the rows of a table so far and D what a range delivers, as Z-sets,

    delta = D,   where S + D has no negative weight

Copies of a row are told apart by the number under which each came. What is taken back is what came
last: a copy that the range brings itself before one that was there. So a row that comes and goes in
one range was never there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laminar.delta.change import bag, columns, quote
from laminar.model.same_row import RowType, identity
from laminar.model.trace import ARRIVAL, WEIGHT

NOT_THERE = "a row that is taken back is not there"

_KIND, _ASKED, _THERE, _PLACE = "__kind", "__asked", "__there", "__place"
_NEW, _HELD, _WANTED = 1, 0, -1


def net(row: RowType, before: str, delivered: str) -> str:
    """Return the delta that weighted rows stand for; it raises if a row is not there.

    Args:
        row: the columns of the table, without hidden ones.
        before: a query for its rows so far, with their numbers and weights.
        delivered: a query for the rows of a range, with their numbers and weights.
    """
    fits = f"IF({_KIND} = {_NEW}, {_PLACE} > {_ASKED}, {_PLACE} <= {_ASKED})"
    missing = f"{_THERE} < {_ASKED} AND RAISE_ERROR('{NOT_THERE}') IS NULL"
    return (
        f"SELECT {columns(row.names)}, {ARRIVAL}, IF({_KIND} = {_NEW}, 1L, -1L) AS {WEIGHT} "
        f"FROM ({_copies(row, before, delivered)}) "
        f"WHERE IF({_KIND} = {_WANTED}, {missing}, {fits})"
    )


def not_there(row: RowType, before: str, delivered: str) -> str:
    """Return a query for some of the rows that `net` would raise for."""
    return (
        f"SELECT {columns(row.names)} FROM ({_copies(row, before, delivered)}) "
        f"WHERE {_KIND} = {_WANTED} AND {_THERE} < {_ASKED} LIMIT 3"
    )


def comparable(columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the columns, of those with their types, that a join can compare.

    To Spark's joins VOID is not VOID.
    """
    for name, kind in columns:
        if not any(each in kind.lower() for each in ("map", "variant", "void")):
            yield quote(name)


def _copies(row: RowType, before: str, delivered: str) -> str:
    """Return every copy of the rows that are taken back, and all new ones, in their places."""
    listed, numbered = columns(row.names), row.plus(ARRIVAL, "bigint")
    pairs = tuple(zip(row.names, row.kinds, strict=True))
    wanted = f"SELECT {listed}, {WEIGHT} FROM ({delivered}) WHERE {WEIGHT} < 0"
    on = " AND ".join(f"t.{name} <=> u.{name}" for name in comparable(pairs)) or "true"
    held = f"SELECT t.* FROM ({before}) t LEFT SEMI JOIN ({wanted}) u ON {on}"
    new = f"SELECT {listed}, {ARRIVAL}, {WEIGHT} FROM ({delivered}) WHERE {WEIGHT} > 0"
    nobody = f"0L AS {_ASKED}"
    each = (
        f"SELECT {listed}, {ARRIVAL}, {_NEW} AS {_KIND}, {nobody}"
        f" FROM ({bag(new, numbered, positive=True)})"
        f" UNION ALL SELECT {listed}, {ARRIVAL}, {_HELD} AS {_KIND}, {nobody}"
        f" FROM ({bag(held, numbered, positive=False)})"
        f" UNION ALL SELECT {listed}, CAST(NULL AS BIGINT) AS {ARRIVAL}, {_WANTED} AS {_KIND},"
        f" -{WEIGHT} AS {_ASKED} FROM ({wanted})"
    )
    same = ", ".join(by for name, kind in pairs for by in identity(quote(name), kind).by)
    return (
        f"SELECT {listed}, {ARRIVAL}, {_KIND},"
        f" SUM({_ASKED}) OVER (PARTITION BY {same}) AS {_ASKED},"
        f" COUNT_IF({_KIND} <> {_WANTED}) OVER (PARTITION BY {same}) AS {_THERE},"
        f" ROW_NUMBER() OVER (PARTITION BY {same} ORDER BY {_KIND} DESC, {ARRIVAL} DESC)"
        f" AS {_PLACE} FROM ({each})"
    )
