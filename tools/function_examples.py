"""What Spark documents of its functions, as queries of views over rows of tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.sql.tokens import Kind, Token, tokenize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fits = Callable[[str], bool]
"""Whether a table may have a column of a type."""

ONE_ROW = " FROM {t}"

_EXAMPLE = re.compile(r"^\s*>\s*(.+?);", re.MULTILINE | re.DOTALL)
_BEFORE = ("SELECT", "AND", "OR", "NOT", "DIV", "LIKE", "RLIKE", "ILIKE", "BETWEEN", "MOD", "IN")
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME")

OURS = {
    "!=": ("SELECT 1 != 2", "SELECT 'a' != 'a'"),
    "<>": ("SELECT 1 <> 2", "SELECT true <> NULL"),
    "||": ("SELECT 'Spark' || 'SQL'", "SELECT array(1, 2) || array(3)"),
    "case": ("SELECT CASE 3 WHEN 1 THEN 'a' ELSE 'b' END", "SELECT CASE WHEN 1 > 2 THEN 5 END"),
    "bigint": ("SELECT bigint('9223372036854775807')",),
    "binary": ("SELECT binary('Spark')",),
    "boolean": ("SELECT boolean('true')",),
    "date": ("SELECT date('2024-02-29')",),
    "decimal": ("SELECT decimal('12')",),
    "double": ("SELECT double('1.5')",),
    "float": ("SELECT float('1.5')",),
    "int": ("SELECT int('-5')",),
    "smallint": ("SELECT smallint('7')",),
    "string": ("SELECT string(1.50)",),
    "time": ("SELECT time('12:30:00')",),
    "timestamp": ("SELECT timestamp('2024-02-29 12:30:00')",),
    "tinyint": ("SELECT tinyint('7')",),
}
"""Examples for what Spark documents without any that runs."""


OPEN = ("any_value", "first", "first_value", "last", "last_value")
"""They take a row of which Spark leaves open which it is; a view takes the first to arrive."""


@dataclass(frozen=True)
class Example:
    """A documented query: `SELECT {head}{tail}`, over a table `{t}` whose columns begin with `{p}`.

    Those of functions of one row have the tail `ONE_ROW`.
    """

    function: str
    head: str
    tail: str = ""
    columns: tuple[str, ...] = ()  # name and type
    rows: str = ""  # a query that gives the rows of the table

    def query(self, table: str, prefix: str = "") -> str:
        """Return the query over a table of that name."""
        return f"SELECT {self.head}{self.tail}".format(t=table, p=prefix)


def functions_of(spark: SparkSession) -> list[str]:
    """Return the names of all of Spark's functions and operators."""
    return sorted(str(row[0]) for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())


def examples_of(spark: SparkSession, function: str, fits: Fits) -> tuple[list[Example], str]:
    """Return a function's examples as queries of views; if there is none, say why."""
    told = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{function}`").collect()
    texts = _EXAMPLE.findall("\n".join(str(row[0]) for row in told))
    queries = [" ".join(each.split()) for each in texts]
    queries = [each for each in queries if each.upper().startswith("SELECT ")]
    found = [made for each in queries if (made := _as_view(spark, function, each, fits))]
    if not found:
        given = [_as_view(spark, function, each, fits) for each in OURS.get(function, ())]
        found = [made for made in given if made is not None]
    return found, "" if found else _refusal(spark, queries)


def _refusal(spark: SparkSession, queries: Sequence[str]) -> str:
    """Return what Spark itself says to the first example."""
    if not queries:
        return "no example"
    try:
        _ = spark.sql(queries[0]).schema
    except SPARK_FAILS as error:
        return f"Spark refuses its own example: {first_sentence(error)}"
    return "no example that can be a view"


def _as_view(spark: SparkSession, function: str, query: str, fits: Fits) -> Example | None:
    """Return an example over a table; None if Spark itself refuses the example."""
    for made in _forms(spark, function, query):
        if not all(fits(column.partition(" ")[2]) for column in made.columns):
            continue
        name = " AS tab" if made.tail == ONE_ROW else ""
        try:
            _ = spark.sql(made.query(f"({made.rows}){name}")).schema
        except SPARK_FAILS:
            continue
        return made
    return None


def _forms(spark: SparkSession, function: str, query: str) -> Iterator[Example]:
    """Yield the ways to write an example, that with most columns of a table first."""
    query = query[len("SELECT ") :]
    tokens = tokenize(query)
    words = [token.upper for token in tokens]
    if "FROM" in words:
        if words.count("VALUES") == 1:
            yield from _over_values(spark, function, query, tokens)
        yield Example(function, _plain(query))
        return
    places = list(_literals(tokens))
    for chosen in (places, places[:1]):
        if chosen:
            yield from _over_columns(spark, function, query, chosen)
    yield Example(function, _plain(query), ONE_ROW, ("{p}id INT",), "SELECT 1 AS id")


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _over_values(
    spark: SparkSession, function: str, query: str, tokens: Sequence[Token]
) -> Iterator[Example]:
    """Take the rows of `FROM VALUES ... AS tab(col)` for those of a table."""
    at = next(place for place, token in enumerate(tokens) if token.is_word("VALUES"))
    named = _name_after(tokens, at)
    if named is None:
        return
    end = named
    while end < len(tokens) and not tokens[end].is_symbol(")"):
        end += 1
    values = query[tokens[at].start : tokens[min(end, len(tokens) - 1)].end]
    try:
        fields = spark.sql(f"SELECT * FROM {values}").schema.fields
    except SPARK_FAILS:
        return
    columns = tuple(f"`{each.name}` {each.dataType.simpleString()}" for each in fields)
    head, tail = query[: tokens[at].start], query[tokens[end].end :]
    over = f"{_plain(head)}{{t}} AS {tokens[named].text}"
    yield Example(function, over, _plain(tail), columns, f"SELECT * FROM {values}")


def _name_after(tokens: Sequence[Token], at: int) -> int | None:
    """Return the place of the name that follows the rows of VALUES, with names of columns."""
    depth = 0
    for place in range(at + 1, len(tokens) - 1):
        token, before = tokens[place], tokens[place - 1]
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0:
            return None
        ended = before.is_symbol(")") or before.kind in (Kind.STRING, Kind.NUMBER)
        named = before.is_word("AS") or ended
        is_name = token.kind is Kind.WORD and tokens[place + 1].is_symbol("(")
        if depth == 0 and place > at + 1 and named and is_name:
            return place
    return None


def _over_columns(
    spark: SparkSession, function: str, query: str, places: Sequence[tuple[int, int]]
) -> Iterator[Example]:
    """Take literals for the values of columns."""
    values = [query[start:end] for start, end in places]
    try:
        fields = spark.sql(f"SELECT {', '.join(values)}").schema.fields
    except SPARK_FAILS:
        return
    kept, at = [], 0
    for number, (start, end) in enumerate(places):
        kept += [_plain(query[at:start]), f"{{p}}a{number}"]
        at = end
    kept.append(_plain(query[at:]))
    columns = tuple(f"{{p}}a{n} {each.dataType.simpleString()}" for n, each in enumerate(fields))
    named = (f"{value} AS a{number}" for number, value in enumerate(values))
    yield Example(function, "".join(kept), ONE_ROW, columns, f"SELECT {', '.join(named)}")


def _literals(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield where literals stand that are arguments or operands."""
    for place, token in enumerate(tokens):
        if token.kind not in (Kind.STRING, Kind.NUMBER):
            continue
        start, at = token.start, place - 1
        if at >= 0 and tokens[at].is_word(*_TYPED):
            start, at = tokens[at].start, at - 1
        before = tokens[at] if at >= 0 else None
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        is_operand = (
            before is None
            or (before.kind is Kind.SYMBOL and before.text not in (".", "->", ":", "::", "=>"))
            or before.is_word(*_BEFORE)
        )
        if is_operand and (after is None or after.kind is Kind.SYMBOL or after.is_word(*_BEFORE)):
            yield start, token.end
