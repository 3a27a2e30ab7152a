"""Types, as Spark's analyzer sees them: no data is touched."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from laminar.delta.change import Version, table
from laminar.delta.program import Shape
from laminar.delta.render import Everything, change
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.model.trace_name import TraceName
from laminar.plan.nodes import Node
from laminar.runtime.spark.functions import known_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL_FIELDS = 2**31 - 1


class SparkTyper:
    """Declares empty relations in a session of its own and asks for the types of statements."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = threading.Lock()

    def functions(self) -> tuple[str, ...]:
        """Return the names of all functions."""
        return known_functions(self._session)

    def declare(self, shape: Shape, *, numbered: bool = False) -> None:
        """Make a relation known: under its own name, and with its three bindings.

        Rows of tables are `numbered` by their arrival, in a column that only bindings have.
        """
        weighted = _empty(self._session, shape.numbered if numbered else shape.stored)
        for version in Version:
            weighted.createOrReplaceTempView(table(shape.name, version))
        if TraceName.parse(shape.name).part is None:
            plain = weighted.drop(WEIGHT, ARRIVAL)
            plain.createOrReplaceTempView(f"`{shape.name}`")

    def types(self, node: Node) -> Mapping[str, str]:
        """Return column -> type of a stateless plan over declared relations."""
        rows = change(node, Everything()).after
        assert rows is not None
        return self.of_sql(rows)

    def of_sql(self, sql: str) -> Mapping[str, str]:
        """Return column -> type of a statement."""
        with self._lock:
            schema = self._session.sql(sql).schema
        return {field.name: field.dataType.simpleString() for field in schema.fields}

    def of_query(self, sql: str) -> list[tuple[str, str]]:
        """Return (column, type) of a user's query; names may repeat."""
        with self._lock:
            schema = self._session.sql(sql).schema
        return [(field.name, field.dataType.simpleString()) for field in schema.fields]

    def reads_as_time(self, sql: str, text: str) -> bool:
        """Say whether a string stands for a time somewhere in a query."""
        with self._lock:
            plan = self._session.sql(sql)._jdf.queryExecution().analyzed()  # noqa: SLF001
        rules = self._session._jvm.org.apache.spark.sql.catalyst.optimizer  # type: ignore[union-attr]  # noqa: SLF001
        written_out = rules.ReplaceExpressions.apply(plan)
        shown = str(written_out.treeString(False, False, _ALL_FIELDS, False, False))
        return re.search(rf"cast\({re.escape(text)} as (timestamp|date)", shown) is not None


def _empty(session: SparkSession, ddl: str):  # type: ignore[no-untyped-def]
    return session.sql(f"SELECT r.* FROM (SELECT CAST(NULL AS STRUCT<{ddl}>) AS r) WHERE false")
