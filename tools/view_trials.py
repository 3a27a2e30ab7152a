"""Views of examples, maintained over two epochs and compared with Spark's own answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from function_examples import ONE_ROW, OPEN, Example, examples_of

import laminar
from laminar.delta.program import Program, Strategy
from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.runtime.spark.session import own_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKED = 16
"""Examples of functions of one row that share a view."""
TOGETHER = 40
"""Views that share a database."""
FAILS = (laminar.LaminarError, *SPARK_FAILS)

WORST = ("incremental", "affected groups", "full", "refused")


@dataclass
class Outcome:
    """What became of one function: strategy -> why, or by which example."""

    strategies: dict[str, str] = field(default_factory=dict)

    @property
    def strategy(self) -> str:
        """Return the costliest strategy of an accepted example, or else `refused`."""
        accepted = [each for each in WORST[:3] if each in self.strategies]
        return accepted[-1] if accepted else next(iter(self.strategies))


@dataclass
class Findings:
    """What became of all functions."""

    functions: dict[str, Outcome] = field(default_factory=dict)
    examples: int = 0
    over_rows: int = 0
    equal: int = 0
    fail_alike: list[str] = field(default_factory=list)
    refused: int = 0
    left_open: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    def note(self, function: str, strategy: str, why: str) -> None:
        """Keep the first example of each strategy."""
        self.functions.setdefault(function, Outcome()).strategies.setdefault(strategy, why)

    def strategies(self) -> dict[str, list[str]]:
        """Return the strategies of each function."""
        return {name: sorted(each.strategies) for name, each in self.functions.items()}


def try_functions(spark: SparkSession, functions: Sequence[str]) -> Findings:
    """Make views of all examples of functions, and compare them."""
    found, asking = Findings(), own_session(spark, 2)
    asking.conf.set("spark.sql.timeType.enabled", "true")
    examples: list[Example] = []
    with laminar.connect(spark=spark) as db:
        typer = db.engine.defined.catalog.typer
        for function in functions:
            given, why = examples_of(asking, function, lambda kind: not _unfit(typer, kind))
            examples += given
            if not given:
                found.note(function, "not tried", why)
    found.examples = len(examples)
    found.over_rows = sum(bool(each.columns) for each in examples)
    simple = [each for each in examples if each.tail == ONE_ROW]
    groups = [simple[at : at + PACKED] for at in range(0, len(simple), PACKED)]
    groups += [[each] for each in examples if each.tail != ONE_ROW]
    while groups:
        now, groups = groups[:TOGETHER], groups[TOGETHER:]
        groups += _halves(_trial(spark, now, found))
    return found


def _unfit(typer: Any, kind: str) -> bool:
    return kind == "void" or bool(typer.unfit(kind, pushed=True))


def _halves(groups: Sequence[Sequence[Example]]) -> list[list[Example]]:
    """Split what went wrong together, until it goes wrong alone."""
    return [
        list(half)
        for group in groups
        for half in (group[: len(group) // 2], group[len(group) // 2 :])
    ]


def _trial(
    spark: SparkSession, groups: Sequence[Sequence[Example]], found: Findings
) -> list[Sequence[Example]]:
    """Maintain a view for each group over two epochs; return groups to be tried in parts."""
    again: list[Sequence[Example]] = []
    with laminar.connect(spark=spark) as db:
        made = []
        for at, group in enumerate(groups):
            try:
                made.append((at, group, *_made(db, f"t{at}", group)))
            except FAILS as error:
                if len(group) > 1:
                    again.append(group)
                else:
                    _refused(found, group[0], error)
        stuck: dict[int, str] = {}
        for deletes in (False, True):
            for at, _, rows, _ in made:
                try:
                    _change(db, f"t{at}", rows, deletes=deletes)
                except FAILS as error:
                    stuck[at] = first_sentence(error)
            try:
                db.step()
            except laminar.LaminarError:
                continue  # a view failed, which is seen when it is compared
        for at, group, _, query in made:
            is_packed = len(group) > 1
            program = db.engine.defined.catalog.programs[f"v{at}"]
            if is_packed and (at in stuck or program.strategy is not Strategy.INCREMENTAL):
                again.append(group)
            elif at in stuck:
                found.differing.append(f"{_shown(group[0])}: its rows: {stuck[at]}")
            elif _compared(db, at, group, query, found):
                _strategy(program, group, found)
            else:
                again.append(group)
    return again


def _refused(found: Findings, example: Example, error: Exception) -> None:
    code, message = getattr(error, "code", "bare"), getattr(error, "message", str(error))
    said = re.sub(r'view "v\d+" ', "", message)
    found.note(example.function, "refused", f"{code}, {said}: `{_shown(example)}`")
    found.refused += 1


def _shown(example: Example) -> str:
    return " ".join(example.query("t").split())


def _strategy(program: Program, group: Sequence[Example], found: Findings) -> None:
    strategy = program.strategy.value.replace("_", " ")
    costly = next(each for each in program.relations if each.strategy is program.strategy)
    reason = getattr(costly, "reason", "")
    for each in group:
        why = f"{reason}: `{_shown(each)}`" if reason else f"`{_shown(each)}`"
        found.note(each.function, strategy, why)


def _compared(
    db: laminar.Database, at: int, group: Sequence[Example], query: str, found: Findings
) -> bool:
    """Compare a view with Spark; False if a group has to be tried in parts."""
    came = outcome(db, f"v{at}", query)
    if came == "equal":
        found.equal += len(group)
    elif len(group) > 1:
        return False
    elif came == "fails alike":
        found.fail_alike.append(_shown(group[0]))
    elif group[0].function in OPEN:
        found.left_open.append(_shown(group[0]))
    else:
        found.differing.append(f"{group[0].function}: {_shown(group[0])}: {came}")
    return True


def _made(db: laminar.Database, table: str, group: Sequence[Example]) -> tuple[str, str]:
    """Create a table and a view of it; return the rows of the table and the view's query."""
    prefixes = [f"e{at}_" if len(group) > 1 else "" for at in range(len(group))]
    columns = [c.format(p=p) for each, p in zip(group, prefixes, strict=True) for c in each.columns]
    rows = group[0].rows
    if len(group) > 1:
        rows = "SELECT " + ", ".join(each.rows.removeprefix("SELECT ") for each in group)
    if columns:
        db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
    query = _titled(db, group, table)
    db.execute(f"CREATE MATERIALIZED VIEW v{table[1:]} AS {query}")
    return rows, query


def _titled(db: laminar.Database, group: Sequence[Example], table: str) -> str:
    """Return the query of a group of examples, its columns by number: names may repeat."""
    if len(group) == 1:
        query = group[0].query(table)
    else:
        heads = (each.head.format(t=table, p=f"e{at}_") for at, each in enumerate(group))
        query = f"SELECT {', '.join(heads)} FROM {table}"
    count = len(db.engine.defined.catalog.typer.of_query(query))
    return f"SELECT * FROM ({query}) AS q({', '.join(f'r{at}' for at in range(count))})"


def _change(db: laminar.Database, table: str, rows: str, *, deletes: bool) -> None:
    """Add the rows of an example, in the first epoch twice; take one copy of them back later."""
    if not rows:
        return
    given = db.engine.defined.catalog.shape(table)
    frame = db.sql(f"SELECT * FROM (\n{rows}\n) AS q({', '.join(given.columns)})").spark()
    if deletes:
        db.delete(table, frame)
    else:
        db.insert(table, frame.unionAll(frame))


def outcome(db: laminar.Database, view: str, query: str) -> str:
    """Compare a view with what Spark answers now."""
    try:
        wanted = _bag(db, f"({query})")
    except FAILS as error:
        try:
            _bag(db, view)
        except FAILS:
            return "fails alike"
        asked = f"SELECT state FROM laminar_system.materialized_views WHERE name = '{view}'"
        running = db.sql(asked).rows() == [("running",)]
        return f"Spark fails: {first_sentence(error)}" if running else "fails alike"
    try:
        found = _bag(db, view)
    except FAILS as error:
        return f"the view fails: {first_sentence(error)}"
    return "equal" if found == wanted else f"{found} instead of {wanted}"


def _bag(db: laminar.Database, relation: str) -> Counter[str]:
    """Return the rows of a relation, by how they are shown."""
    asked = db.sql(f"SELECT * FROM {relation}")
    try:
        rows: list[Any] = asked.spark().collect()
    except (*FAILS, NotImplementedError, ValueError):
        cast = ", ".join(f"CAST({name} AS STRING)" for name in asked.columns)
        rows = db.sql(f"SELECT {cast} FROM {relation}").spark().collect()
    return Counter(repr([_in_order(cell) for cell in row]) for row in rows)


def _in_order(cell: Any) -> Any:
    """Sort a list: Spark leaves the order of `collect_list` open, and a view has the least one."""
    return sorted(cell, key=repr) if isinstance(cell, list) else cell
