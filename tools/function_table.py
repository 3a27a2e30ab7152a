"""Render docs/sql-functions.md: what becomes of Spark's functions, types and clauses in a view.

`python tools/function_table.py` asks Spark for all its functions and the examples it documents,
makes views of them, over rows of tables rather than literals where that is possible, compiles and
maintains them, and compares each with Spark's own answer.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import laminar
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import ViewDefinition
from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.runtime.spark.session import own_session, start_spark
from laminar.runtime.statements.dispatch import table_definition
from laminar.sql import CreateTable, parse_statement
from laminar.sql.tokens import Kind, Token, tokenize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[1] / "docs" / "sql-functions.md"
PACKED = 12
"""Examples of functions of one row that share a view."""

_EXAMPLE = re.compile(r"^\s*>\s*(.+?);", re.MULTILINE | re.DOTALL)
_BEFORE = ("SELECT", "AND", "OR", "NOT", "DIV", "LIKE", "RLIKE", "ILIKE", "BETWEEN", "MOD", "IN")
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME")
_WORST = ("incremental", "affected groups", "full", "refused")


@dataclass(frozen=True)
class Example:
    """A documented query: `SELECT {head}{tail}`, over a table `{t}` whose columns begin with `{p}`.

    Those of functions of one row have no tail of their own.
    """

    function: str
    head: str
    tail: str = ""
    columns: tuple[str, ...] = ()  # name and type
    rows: str = ""  # a query that gives the rows of the table

    def query(self, table: str, prefix: str = "") -> str:
        """Return the query over a table of that name."""
        return f"SELECT {self.head}{self.tail}".format(t=table, p=prefix)


@dataclass
class Findings:
    """What became of all functions."""

    strategies: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    examples: int = 0
    over_rows: int = 0
    equal: int = 0
    fail_alike: int = 0
    accepted: list[Example] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    def note(self, function: str, strategy: str, reason: str) -> None:
        """Keep the costliest strategy of a function's examples."""
        before = self.strategies.get(function)
        if before is None or _WORST.index(strategy) > _WORST.index(before):
            self.strategies[function], self.reasons[function] = strategy, reason


def functions_of(spark: SparkSession) -> list[str]:
    """Return the names of all of Spark's functions and operators."""
    return sorted(str(row[0]) for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())


def examples_of(spark: SparkSession, function: str) -> list[Example]:
    """Return what Spark documents for a function, as queries of views."""
    told = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{function}`").collect()
    texts = _EXAMPLE.findall("\n".join(str(row[0]) for row in told))
    queries = [" ".join(each.split()) for each in texts]
    made = (_as_view(spark, function, q) for q in queries if q.upper().startswith("SELECT "))
    return [each for each in made if each is not None]


def _as_view(spark: SparkSession, function: str, query: str) -> Example | None:
    """Return an example over a table; None if Spark itself refuses the example."""
    for made in _forms(spark, function, query):
        table = made.rows and f"({made.rows})"
        try:
            _ = spark.sql(made.query(f"{table} AS tab")).schema
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
    yield Example(function, _plain(query), " FROM {t}", ("{p}id INT",), "SELECT 1 AS id")


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _over_values(
    spark: SparkSession, function: str, query: str, tokens: Sequence[Token]
) -> Iterator[Example]:
    """Take the rows of `FROM VALUES ... AS tab(col)` for those of a table."""
    words = [token.upper for token in tokens]
    at = words.index("VALUES")
    depth, end = 0, at
    while end < len(tokens) and not (
        depth == 0
        and end > at
        and words[end - 1] == ")"
        and words[end] not in (",",)
        and words[end] != "AS"
        and tokens[end].kind is not Kind.WORD
        and words[end] != "("
    ):
        depth += (words[end] == "(") - (words[end] == ")")
        if depth < 0:
            break
        end += 1
        if depth == 0 and words[end - 1] == ")" and _is_alias_before(tokens, end):
            break
    values = query[tokens[at].start : tokens[end - 1].end]
    try:
        fields = spark.sql(f"SELECT * FROM {values}").schema.fields
    except SPARK_FAILS:
        return
    columns = tuple(f"`{each.name}` {each.dataType.simpleString()}" for each in fields)
    head, tail = query[: tokens[at].start], query[tokens[end - 1].end :]
    name = _alias(tokens, end)
    rows = f"SELECT * FROM {values}"
    yield Example(function, _plain(head) + "{t} AS " + name, _plain(tail), columns, rows)


def _is_alias_before(tokens: Sequence[Token], end: int) -> bool:
    """Whether the bracket that ends here holds the columns of an alias."""
    at, depth = end - 1, 0
    while at >= 0:
        depth += tokens[at].is_symbol(")") - tokens[at].is_symbol("(")
        if depth == 0:
            break
        at -= 1
    before = tokens[at - 1]
    return before.kind is Kind.WORD and not before.is_word("VALUES", "STRUCT", "ARRAY", "MAP")


def _alias(tokens: Sequence[Token], end: int) -> str:
    at = end - 1
    while not tokens[at].is_symbol("("):
        at -= 1
    return tokens[at - 1].text


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
    yield Example(function, "".join(kept), " FROM {t}", columns, f"SELECT {', '.join(named)}")


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


def find_out(spark: SparkSession, only: Iterable[str] | None = None) -> Findings:
    """Make queries of views of all examples, or of those of some functions, and compile them."""
    found, asking = Findings(), own_session(spark, 2)
    everything: list[Example] = []
    for function in only or functions_of(spark):
        given = examples_of(asking, function)
        everything += given
        if not given:
            found.strategies[function] = "no example"
    found.examples = len(everything)
    found.over_rows = sum(bool(each.columns) for each in everything)
    accepted = _compiled(spark, everything, found)
    found.accepted = accepted
    return found


def compare(spark: SparkSession, found: Findings) -> None:
    """Maintain views of all examples that are accepted, and compare them with Spark."""
    accepted = found.accepted
    simple = [each for each in accepted if each.tail == " FROM {t}"]
    groups = [simple[at : at + PACKED] for at in range(0, len(simple), PACKED)]
    groups += [[each] for each in accepted if each.tail != " FROM {t}"]
    again: list[Example] = []
    for at in range(0, len(groups), 30):
        again += _compare(spark, groups[at : at + 30], found)
        print(f"{at + 30} of {len(groups)} views", flush=True)
    for at in range(0, len(again), 30):
        _compare(spark, [[each] for each in again[at : at + 30]], found)


def _compiled(spark: SparkSession, examples: Sequence[Example], found: Findings) -> list[Example]:
    """Compile every example, without rows; return those that a view may be made of."""
    with laminar.connect(spark=spark) as db:
        catalog = db.engine.defined.catalog.copy()
        return [
            each
            for place, each in enumerate(examples)
            if _is_accepted(catalog, f"t{place}", each, found)
        ]


def _is_accepted(catalog: Catalog, table: str, example: Example, found: Findings) -> bool:
    try:
        if example.columns:
            columns = ", ".join(example.columns).format(p="")
            statement = parse_statement(f"CREATE TABLE {table} ({columns})")
            assert isinstance(statement, CreateTable)
            catalog.add_table(table_definition(statement))
        definition = ViewDefinition(f"v_{table}", _titled(catalog, [example], table))
        program = catalog.compile(definition)
    except (laminar.LaminarError, *SPARK_FAILS) as error:
        code = getattr(error, "code", "bare")
        found.note(example.function, "refused", f"{code}, {getattr(error, 'message', error)}")
        return False
    costly = next(each for each in program.relations if each.strategy is program.strategy)
    query = " ".join(example.query("t").split())
    why = f"{getattr(costly, 'reason', '')}: `{query}`"
    found.note(example.function, program.strategy.value.replace("_", " "), why)
    return True


def _titled(catalog: Catalog, group: Sequence[Example], table: str) -> str:
    """Return the query of a group of examples, its columns by number: names may repeat."""
    if len(group) == 1:
        query = group[0].query(table)
    else:
        heads = (each.head.format(t=table, p=f"e{at}_") for at, each in enumerate(group))
        query = f"SELECT {', '.join(heads)} FROM {table}"
    count = len(catalog.typer.of_query(query))
    return f"SELECT * FROM ({query}) AS q({', '.join(f'r{at}' for at in range(count))})"


def _compare(
    spark: SparkSession, groups: Sequence[Sequence[Example]], found: Findings
) -> list[Example]:
    """Maintain a view for each group over two epochs; return examples to be tried alone."""
    again: list[Example] = []
    with laminar.connect(spark=spark) as db:
        made = [_made(db, f"t{at}", group) for at, group in enumerate(groups)]
        for deletes in (False, True):
            for table, rows in made:
                if rows and table:
                    _change(db, table, rows, deletes=deletes)
            try:
                db.step()
            except laminar.LaminarError:
                continue  # a view failed, which is seen when it is compared
        for at, ((table, _), group) in enumerate(zip(made, groups, strict=True)):
            outcome = "refused" if table is None else _outcome(db, f"v{at}", table, group)
            if outcome == "equal":
                found.equal += len(group)
            elif len(group) > 1:
                again += group
            elif outcome == "fails alike":
                found.fail_alike += 1
            else:
                found.differing.append(f"{group[0].function}: {group[0].query('t')}: {outcome}")
    return again


def _made(db: laminar.Database, table: str, group: Sequence[Example]) -> tuple[str | None, str]:
    """Create a table and a view of it; return the table and its rows, None if it is refused."""
    prefixes = [f"e{at}_" if len(group) > 1 else "" for at in range(len(group))]
    columns = [c.format(p=p) for each, p in zip(group, prefixes, strict=True) for c in each.columns]
    rows = group[0].rows
    if len(group) > 1:
        rows = "SELECT " + ", ".join(each.rows.removeprefix("SELECT ") for each in group)
    try:
        if columns:
            db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        query = _titled(db.engine.defined.catalog, group, table)
        db.execute(f"CREATE MATERIALIZED VIEW v{table[1:]} AS {query}")
    except (laminar.LaminarError, *SPARK_FAILS):
        return None, ""
    return table, rows


def _change(db: laminar.Database, table: str, rows: str, *, deletes: bool) -> None:
    """Add the rows of an example, in the first epoch twice; take one copy of them back later."""
    given = db.engine.defined.catalog.shape(table)
    frame = db.sql(f"SELECT * FROM (\n{rows}\n) AS q({', '.join(given.columns)})").spark()
    if deletes:
        db.delete(table, frame)
    else:
        db.insert(table, frame)
        db.insert(table, frame)


def _outcome(db: laminar.Database, view: str, table: str, group: Sequence[Example]) -> str:
    """Compare a view with what Spark answers now."""
    query = _titled(db.engine.defined.catalog, group, table)
    try:
        wanted = _bag(db, f"({query})")
    except (laminar.LaminarError, *SPARK_FAILS) as error:
        try:
            _bag(db, view)
        except (laminar.LaminarError, *SPARK_FAILS):
            return "fails alike"
        state = db.sql(
            f"SELECT state FROM laminar_system.materialized_views WHERE name = '{view}'"
        ).rows()
        return "fails alike" if state != [("running",)] else f"Spark fails: {first_sentence(error)}"
    try:
        found = _bag(db, view)
    except (laminar.LaminarError, *SPARK_FAILS) as error:
        return f"the view fails: {first_sentence(error)}"
    return "equal" if found == wanted else f"{found} instead of {wanted}"


def _bag(db: laminar.Database, relation: str) -> Counter[str]:
    columns = db.sql(f"SELECT * FROM {relation}").columns
    try:
        rows: list[Any] = db.sql(f"SELECT * FROM {relation}").spark().collect()
    except (laminar.LaminarError, *SPARK_FAILS, NotImplementedError, ValueError):
        cast = ", ".join(f"CAST({name} AS STRING)" for name in columns)
        rows = db.sql(f"SELECT {cast} FROM {relation}").spark().collect()
    return Counter(repr([_in_order(cell) for cell in row]) for row in rows)


def _in_order(cell: Any) -> Any:
    """Sort a list: Spark leaves the order of `collect_list` open, and a view has the least one."""
    return sorted(cell, key=repr) if isinstance(cell, list) else cell


def main(only: Sequence[str]) -> None:
    """Find out about all functions and write the page; about some, tell what differs."""
    spark = start_spark(None)
    found = find_out(spark, only or None)
    if not only:
        PAGE.write_text(render(found), encoding="utf-8")
    print(f"{found.examples} examples, {found.over_rows} over rows of a table", flush=True)
    for name in only:
        print(name, found.strategies.get(name), found.reasons.get(name))
    compare(spark, found)
    print(f"{found.equal} equal, {found.fail_alike} fail in Spark too, differing:")
    print("\n".join(found.differing))


def render(found: Findings) -> str:
    """Return the page."""
    by_strategy: dict[str, list[str]] = defaultdict(list)
    for function, strategy in found.strategies.items():
        by_strategy[strategy].append(function)
    parts = [_HEAD]
    for strategy in ("incremental", "affected groups"):
        names = by_strategy[strategy]
        listed = textwrap.fill(", ".join(f"`{name}`" for name in names), 110)
        parts.append(f"## {strategy.capitalize()} ({len(names)})\n\n{listed}\n")
    for strategy in ("full", "refused"):
        names = by_strategy[strategy]
        rows = "\n".join(f"| `{name}` | {_said(found.reasons[name])} |" for name in names)
        title = f"## {strategy.capitalize()} ({len(names)})"
        parts.append(f"{title}\n\n| function | why |\n|---|---|\n{rows}\n")
    names = by_strategy["no example"]
    listed = textwrap.fill(", ".join(f"`{name}`" for name in names), 110)
    parts.append(f"## Without an example ({len(names)})\n\n{listed}\n")
    return "\n".join(parts)


def _said(reason: str) -> str:
    return re.sub(r'view "\w+" ', "", reason).replace("|", "\\|")


_HEAD = """# Functions of Spark in views

What a view that calls a function of Spark's does in an epoch, by the costliest of the examples
that Spark documents for it ([sql.md](sql.md) says what the strategies are). This page is rendered
by `tools/function_table.py`, which makes views of those examples, over rows of tables where that is
possible, and compares each with Spark's own answer.
"""


if __name__ == "__main__":
    main(sys.argv[1:])
