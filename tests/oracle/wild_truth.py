"""What Spark answers over the rows that are there, and when a view holds the same."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from laminar.model.quoting import backquoted
from laminar.testing.bags import Row, assert_same_bag, frozen

from .kinds import ALL_KINDS
from .wild_cases import WildCase
from .wild_frames import TOGETHER, bind, rows_frame, shown, shown_together
from .wild_queries import Columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIES = re.compile(r"\b(MIN|MAX|LIMIT|GREATEST)\b")
"""Queries that pick one of values that are equal: Spark the first it meets, we the least."""


class Truth:
    """What Spark answers over the rows that are there; asked once for each state of them."""

    def __init__(self, case: WildCase, session: SparkSession) -> None:
        self._case = case
        self._session = session
        self._bound: dict[str, list[list[str]]] = {}
        self._known: dict[str, list[Row] | None] = {}

    def answer(self, name: str, rows: dict[str, list[list[str]]]) -> list[Row] | None:
        """Return the rows of a table or view; None if it, or a view it reads, has no answer."""
        self._bind_all(rows)
        query = self._case.views.get(name, "")
        if any(self.answer(each, rows) is None for each in views_read(query)):
            return None  # even if it does not need what fails there
        if name not in self._known:
            self._known[name] = self._asked(name)
        return self._known[name]

    def _bind_all(self, rows: dict[str, list[list[str]]]) -> None:
        if rows == self._bound:
            return
        for table, columns in self._case.tables.items():
            if self._bound.get(table) != rows[table]:
                bind(self._session, table, columns, rows[table])
        for view, query in self._case.views.items():
            self._session.sql(query).createOrReplaceTempView(view)
        self._bound = {table: list(each) for table, each in rows.items()}
        self._known = {}

    def learn(self, names: list[str], rows: dict[str, list[list[str]]]) -> None:
        """Ask for several at once; where one of them fails, each is asked alone later."""
        self._bind_all(rows)
        due = [name for name in names if name not in self._known]
        for at in range(0, len(due), TOGETHER):
            some = due[at : at + TOGETHER]
            with suppress(Exception):
                frames = {n: self._session.sql(f"SELECT * FROM {backquoted(n)}") for n in some}
                self._known |= shown_together(frames)

    def _asked(self, name: str) -> list[Row] | None:
        try:
            return shown(self._session.sql(f"SELECT * FROM {backquoted(name)}"))
        except Exception:  # what Spark has against a query differs: it does not answer
            return None

    def told(self, table: str, rows: list[list[str]]) -> list[Any]:
        """Return rows of literals as `told` tells rows that the database shows."""
        columns = self._case.tables[table]
        forms = (
            f"{ALL_KINDS[kind].told.format(backquoted(name))}" for name, kind in columns.items()
        )
        frame = rows_frame(self._session, columns, rows, "0 AS `#`").selectExpr("`#`", *forms)
        return [told(columns, row[1:]) for row in sorted(frame.collect(), key=lambda row: row[0])]


def views_read(query: str) -> list[str]:
    """Return the views that a query reads."""
    return re.findall(r"\bv\d+_\w+", query)


def told(columns: Columns, row: Any) -> Any:
    """Return a row as something that is equal for the same values, whoever collected them."""

    def of(value: Any, kind: str) -> Any:
        if value is None or kind not in ("instant", "variant"):
            return value
        if kind == "variant":
            return (value.toJson(), type(value.toPython()).__name__)
        since = value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1)

    return frozen(tuple(of(value, kind) for value, kind in zip(row, columns.values(), strict=True)))


def assert_answered(found: list[Row], truth: list[Row], query: str, family: str) -> None:
    try:
        assert_same_bag(found, truth)
    except AssertionError:
        if family != "collated" and not TIES.search(query):
            raise
        assert_same_bag(_folded(found, family), _folded(truth, family))


def _folded(value: Any, family: str) -> Any:
    """Return values without what tells equal ones apart: the sign of zero, a spelling."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, str) and family == "collated":
        return value.lower()
    if isinstance(value, tuple):
        return tuple(_folded(each, family) for each in value)
    return [_folded(each, family) for each in value] if isinstance(value, list) else value
