"""Types, as Spark's analyzer sees them: no data is touched."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from laminar.delta.change import Version, table
from laminar.delta.program import Shape
from laminar.delta.render import Everything, change
from laminar.errors import NotSupported
from laminar.model.char_columns import Chars
from laminar.model.quoting import backquoted
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.model.trace_name import TraceName
from laminar.plan.context import Casts
from laminar.plan.nodes import Node
from laminar.runtime.spark.access import access_to
from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.runtime.spark.fixed_settings import ASOF, TIME_ZONE, unplanned
from laminar.runtime.spark.java_process import on_renewal
from laminar.runtime.spark.session import own_session, partitions
from laminar.runtime.spark.session_functions import SessionFunctions, known_functions
from laminar.sql.tokens import Kind, tokenize
from laminar.store.char_notes import as_chars, chars_of, holds_chars
from laminar.store.collect import collectable, storable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEVELS = "spark.sql.cteRecursionLevelLimit"

_MARK = "laminar~moment"
"""A string that is no time, nor anything else; so nobody computes what its cast would give."""

_CAST_TO_TIME = re.compile(rf"cast\({_MARK} as (timestamp|date)")

_LEFT, _RIGHT = r"(?P<left>.*__l#\d+L?.*)", r"(?P<right>.*__r#\d+L?.*)"
_COMPARED = re.compile(
    rf"^Project \[\({_LEFT} (?:=|<=>|<|<=|>|>=) {_RIGHT}\) AS __c#", re.MULTILINE
)
_FOUND_IN = re.compile(
    rf"^Project \[{_LEFT} IN \(list#\d+ \[\]\) AS __c#.*\n:  \+- Project \[{_RIGHT}\]$",
    re.MULTILINE,
)
_OPERAND = re.compile(r"__[lr]#\d+L?((?: as .+\))*)(?: AS __r#\d+L?)?")
"""How EXPLAIN tells what is compared: `cast(cast(__l#1 as decimal(3,0)) as decimal(10,2))`."""

_BODY = re.compile(r"^Body:(.*?)(?=^[A-Z][A-Za-z ]*:|\Z)", re.MULTILINE | re.DOTALL)
"""How DESCRIBE FUNCTION EXTENDED tells what a function is."""

_USAGE = re.compile(r"^Usage: (\{.*\})$", re.MULTILINE)
"""How Spark 4.1 does: all that it stores of a function, as JSON."""

_CHAR_SETTINGS = {
    "spark.sql.charAsVarchar": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.noCharPaddingInPredicate": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.readSideCharPadding": "true",
}
"""Settings that decide how CHAR(n) is kept and compared; where one differs, there are none."""

_COMPUTING = ("ConstantFolding", "ConvertToLocalRelation")
_TOLD_WHOLE = {
    # EXPLAIN cuts long plans and long lists short.
    "spark.sql.maxPlanStringLength": str(2**31 - 16),
    "spark.sql.debug.maxToStringFields": str(2**31 - 1),
    # What can be computed stays as it is written.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _COMPUTING
    ),
}


class SparkTyper:
    """Declares empty relations in a session of its own and asks for the types of statements."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._called = SessionFunctions(session)
        self._lock = threading.Lock()
        self.time_zone = str(session.conf.get(TIME_ZONE))
        levels = int(str(session.conf.get(_LEVELS, "100")))
        self.recursion_levels = levels if levels >= 0 else None
        given = access_to(session).set_in(session)
        self.unplanned = unplanned(given)
        self.spark_joins_asof = given.get(ASOF, "").lower() == "true"
        self._compared: dict[tuple[str, str, str], tuple[Casts, Casts] | None] = {}
        self._tell_whole()
        on_renewal(session, self._tell_whole)

    def _tell_whole(self) -> None:
        for name, value in _TOLD_WHOLE.items():
            self._session.conf.set(name, value)

    @classmethod
    def beside(cls, spark: SparkSession) -> SparkTyper:
        """Return one in a session of its own: names that are declared there disturb nobody."""
        return cls(own_session(spark, partitions()))

    def functions(self) -> tuple[str, ...]:
        """Return the names of all functions."""
        return (*known_functions(self._session), *self._called.names())

    def built_in(self) -> frozenset[str]:
        """Return the names of the functions that nobody has to bring, in lower case."""
        return frozenset(each.lower() for each in known_functions(self._session))

    def let_call(self, sql: Mapping[str, str], python: Mapping[str, str]) -> None:
        """Have queries call functions of the user's; of Python code it knows the types alone."""
        with self._lock:
            self._called.stand_in(python)
            self._called.define(sql)

    def declare(self, shape: Shape, *, numbered: bool = False) -> None:
        """Make a relation known: under its own name, and with its three bindings.

        Rows of tables are `numbered` by their arrival, in a column that only bindings have.
        """
        try:
            weighted = _empty(self._session, shape.numbered if numbered else shape.stored)
        except SPARK_FAILS as error:
            pairs = zip(shape.columns, shape.types, strict=True)
            listed = ", ".join(f"{name} {kind}" for name, kind in pairs)
            raise NotSupported(f"columns of these types: {listed}", first_sentence(error)) from None
        for version in Version:
            weighted.createOrReplaceTempView(table(shape.name, version))
        if TraceName.parse(shape.name).part is None:
            plain = as_chars(weighted.drop(WEIGHT, ARRIVAL), shape.chars)
            plain.createOrReplaceTempView(backquoted(shape.name))

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

    def compared(self, left: str, right: str, operator: str) -> tuple[Casts, Casts] | None:
        """Return what Spark casts values of two types to before it compares them.

        None if it does something else to them, or refuses to compare them.
        """
        key = (left, right, operator)
        if key not in self._compared:
            self._compared[key] = self._casts(*key)
        return self._compared[key]

    def _casts(self, left: str, right: str, operator: str) -> tuple[Casts, Casts] | None:
        ours, theirs = f"SELECT CAST(NULL AS {left}) AS __l", f"SELECT CAST(NULL AS {right}) AS __r"
        sql = f"SELECT __l {operator} __r AS __c FROM ({ours}) CROSS JOIN ({theirs})"
        if operator == "IN":
            sql = f"SELECT __l IN (SELECT __r FROM ({theirs})) AS __c FROM ({ours})"
        told = self._told(sql).partition("== Analyzed Logical Plan ==")[2]
        found = (_FOUND_IN if operator == "IN" else _COMPARED).search(told)
        if found is None:
            return None
        ours_cast, theirs_cast = _chain(found["left"]), _chain(found["right"])
        return None if ours_cast is None or theirs_cast is None else (ours_cast, theirs_cast)

    def _told(self, sql: str) -> str:
        with self._lock:
            told: str = self._session.sql(f"EXPLAIN EXTENDED {sql}").collect()[0][0]
        return told

    def body_of(self, function: str) -> str:
        """Return what a function of Spark's catalog computes, if it is written in SQL; else ""."""
        try:
            with self._lock:
                told = self._session.sql(f"DESCRIBE FUNCTION EXTENDED {backquoted(function)}")
                lines = [str(row[0]) for row in told.collect()]
        except SPARK_FAILS:  # there is none
            return ""
        return _body_in("\n".join(lines))

    def of_query(self, sql: str) -> list[tuple[str, str]]:
        """Return (column, type) of a user's query; names may repeat."""
        with self._lock:
            schema = self._session.sql(sql).schema
        return [(field.name, field.dataType.simpleString()) for field in schema.fields]

    def chars_of(self, sql: str) -> Chars:
        """Return which columns of a user's query Spark compares as CHAR(n)."""
        with self._lock:
            schema = self._session.sql(sql).schema
        for each in schema.fields:
            if holds_chars(each.dataType):
                hint = "write CAST(c AS STRING) for the CHAR column that it is made of"
                raise NotSupported(f'a CHAR column in a field of "{each.name}"', hint)
        return chars_of(schema)

    def pads_chars(self) -> bool:
        """Say whether Spark treats CHAR(n) as it does by itself."""
        return all(
            str(self._session.conf.get(name, value)).lower() == value
            for name, value in _CHAR_SETTINGS.items()
        )

    def unfit(self, kind: str, *, pushed: bool) -> str:
        """Say why rows cannot have a column of that type, or cannot be `pushed`; "" if they can."""
        try:
            with self._lock:
                frame = self._session.sql(f"SELECT CAST(NULL AS {kind}) AS c")
                found = frame.schema.fields[0].dataType
        except SPARK_FAILS as error:
            return first_sentence(error)
        if not storable(found):
            return "rows with it cannot be stored"
        return (
            ""
            if collectable(found) or not pushed
            else "rows with it can only come from a connector"
        )

    def reads_as_time(self, sql: str, text: str) -> bool:
        """Say whether a string stands for a time somewhere in a query.

        Another string in its place would be read as one too, and EXPLAIN tells.
        """
        return any(self._reads_mark_as_time(marked) for marked in _marked(sql, text))

    def _reads_mark_as_time(self, sql: str) -> bool:
        try:
            told = self._told(sql)
        except PySparkException as error:
            return _misses_time_literal(error)
        return _CAST_TO_TIME.search(told) is not None


def _chain(operand: str) -> Casts | None:
    """Return the types that an operand is cast to, inner first; None if it is more than cast."""
    depth = 0
    while operand.startswith("cast("):
        operand, depth = operand[len("cast(") :], depth + 1
    found = _OPERAND.fullmatch(operand)
    if found is None:
        return None
    types = [each.removesuffix(")") for each in found[1].split(" as ")[1:]]
    return tuple(types) if len(types) == depth else None


def _body_in(described: str) -> str:
    found = _BODY.search(described)
    if found is not None:
        return found[1].strip()
    stored = _USAGE.search(described)
    facts = json.loads(stored[1]) if stored is not None else {}
    return str(facts.get("sqlFunction.query") or facts.get("sqlFunction.expression") or "").strip()


def _marked(sql: str, text: str) -> Iterator[str]:
    """Yield a query with a mark in the place of a string, once for each place that it stands in."""
    for token in tokenize(sql):
        if token.kind is Kind.STRING and token.value == text:
            yield f"{sql[: token.start]}'{_MARK}'{sql[token.end :]}"


def _misses_time_literal(error: PySparkException) -> bool:
    """Say whether a mark stands where the parser wants a time: TIMESTAMP '09:00'."""
    facts = error.getMessageParameters() or {}
    return error.getCondition() == "INVALID_TYPED_LITERAL" and facts["valueType"].startswith(
        ('"TIMESTAMP', '"DATE')
    )


def _empty(session: SparkSession, ddl: str) -> DataFrame:
    """Return a relation of which the optimizer does not know that it has no rows.

    It would forget whatever is computed from them, and EXPLAIN could not show it.
    """
    row = f"get(CAST(array() AS ARRAY<STRUCT<{ddl}>>), CAST(id AS INT))"
    return session.sql(f"SELECT r.* FROM (SELECT {row} AS r FROM range(0))")
