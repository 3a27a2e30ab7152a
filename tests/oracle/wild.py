"""Random views over tables of any types and over each other, under changes, reopening, and more.

The truth is Spark's answer to each view's query over the rows that the script of literals says are
there. A case is plain JSON, so that a failure can be kept.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import laminar
from laminar.errors import LaminarError
from laminar.model.quoting import backquoted
from laminar.testing.bags import Row, assert_same_bag, frozen

from .kinds import COLLATED, KINDS, NUMBERS, TEXTS, TIMES
from .wild_queries import Columns, WildWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZONES = ("UTC", "America/New_York", "Europe/Amsterdam", "Asia/Kolkata", "Australia/Lord_Howe")
FAMILIES = {
    "numbers": NUMBERS, "texts": TEXTS, "times": TIMES, "any": KINDS, "collated": COLLATED
}  # fmt: skip
ALL_KINDS = KINDS | COLLATED
STEPS = ("change", "change", "change", "reopen", "pause", "restore", "replace", "compact")
TIES = re.compile(r"\b(MIN|MAX|LIMIT|GREATEST)\b")
"""Queries that pick one of values that are equal: Spark the first it meets, we the least."""


@dataclass
class WildCase:
    """What is defined, and what happens."""

    zone: str
    tables: dict[str, Columns]
    views: dict[str, str] = field(default_factory=dict)
    steps: list[list[Any]] = field(default_factory=list)
    """["change", {table: [literals of a row, ...]}, {table: [rows to delete]}, are they one epoch]
    and others."""
    family: str = "any"
    ansi: bool = True


@dataclass
class Tally:
    """What became of the views; `compared` is by family of types and shape of query."""

    compared: Counter[str] = field(default_factory=Counter)
    failed_alike: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def wild_case(chance: random.Random, spark: SparkSession, *, views: int = 8) -> WildCase:
    """Make one up; queries that Spark's analyzer refuses are drawn again."""
    family = chance.choice(sorted(FAMILIES))
    kinds = sorted(FAMILIES[family])
    words = _names(chance, spark)
    tables: dict[str, Columns] = {
        next(words): {
            "id": "int",
            **{next(words): chance.choice(kinds) for _ in range(chance.randint(2, 4))},
        }
        for _ in range(2)
    }
    case = WildCase(chance.choice(ZONES), tables, family=family, ansi=chance.random() < 0.6)
    session = session_in(spark, case.zone, ansi=case.ansi)
    bind_empty(session, case)
    readable = _written(chance, tables)
    while len(case.views) < views:
        shape, query = WildWriter(chance, readable).shaped()
        if makes_sense(session, query):
            name = f"v{len(case.views)}_{shape}"
            case.views[name] = query
            frame = session.sql(query)
            frame.createOrReplaceTempView(name)
            if family != "collated" and chance.random() < 0.3:
                readable[name] = dict.fromkeys(frame.columns, "")
    case.steps = [_change(chance, tables)]
    for _ in range(chance.randint(3, 6)):
        step = chance.choice(STEPS)
        case.steps.append(_change(chance, tables) if step == "change" else [step])
    case.steps.append(_change(chance, tables))
    return case


def _names(chance: random.Random, spark: SparkSession) -> Iterator[str]:
    """Give plain names, or the words that mean something to Spark's parser."""
    words = [f"n{at}" for at in range(12)]
    if chance.random() < 0.5:
        words = [
            word.lower() for (word,) in spark.sql("SELECT keyword FROM sql_keywords()").collect()
        ]
        chance.shuffle(words)
    return iter(words)


def _written(chance: random.Random, tables: dict[str, Columns]) -> dict[str, Columns]:
    """Return the names as queries say them: as they are, or in backquotes."""

    def said(name: str) -> str:
        return chance.choice((name, backquoted(name)))

    return {
        said(name): {said(column): kind for column, kind in columns.items()}
        for name, columns in tables.items()
    }


def _change(chance: random.Random, tables: dict[str, Columns]) -> list[Any]:
    added = {}
    for name, columns in tables.items():
        rows = [
            [
                "NULL" if chance.random() < 0.15 else chance.choice(ALL_KINDS[kind].literals)
                for kind in columns.values()
            ]
            for _ in range(chance.randint(0, 4))
        ]
        added[name] = [*rows, *rows[:1]]  # one row twice
    gone = {name: [chance.randint(0, 99) for _ in range(chance.randint(0, 3))] for name in tables}
    return ["change", added, gone, chance.random() < 0.5]


class WildRun:
    """Runs a case, and compares after every epoch."""

    def __init__(self, case: WildCase, spark: SparkSession, path: Path) -> None:
        self._case = case
        self._path = path
        self._spark = session_in(spark, case.zone, ansi=case.ansi)
        self._truth = Truth(case, session_in(spark, case.zone, ansi=case.ansi))
        self._rows: dict[str, list[list[str]]] = {name: [] for name in case.tables}
        self._defined: list[str] = []
        self.tally = Tally()

    def run(self) -> Tally:
        """Run all; raise an AssertionError that names the view that is wrong."""
        self._db = self._open()
        try:
            for name, columns in self._case.tables.items():
                self._db.execute(f"CREATE TABLE {backquoted(name)} ({_declared(columns)})")
            half = len(self._case.views) // 2
            names = list(self._case.views)
            self._define(names[:half])
            for place, (what, *given) in enumerate(self._case.steps):
                getattr(self, f"_{what}")(*given)
                if place == 0:
                    self._define(names[half:])
                self._compare(f"step {place} ({what})")
        finally:
            self._db.close()
        return self.tally

    def _open(self) -> laminar.Database:
        db = laminar.connect(self._path, spark=self._spark)
        db.execute("SET laminar.max_failures = 1000; SET laminar.retry_backoff_ms = 0")
        return db

    def _define(self, names: list[str]) -> None:
        for name in names:
            query = self._case.views[name]
            if not self._case.views.keys() & set(_read(query)) <= set(self._defined):
                continue
            try:
                self._db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                self._defined.append(name)
            except LaminarError as error:
                if self._truth.answer(name, self._rows) is not None:
                    self.tally.refused[error.code] += 1

    def _change(
        self,
        added: dict[str, list[list[str]]],
        gone: dict[str, list[int]],
        is_one_epoch: bool = False,
    ) -> None:
        for name, numbers in gone.items():
            self._delete(name, numbers)
        if not is_one_epoch:
            self._step()
        for name, rows in added.items():
            if rows:
                listed = ", ".join(f"({', '.join(row)})" for row in rows)
                self._db.execute(f"INSERT INTO {backquoted(name)} VALUES {listed}")
                self._rows[name] += rows
        self._step()

    def _delete(self, table: str, numbers: list[int]) -> None:
        """Delete some rows as the database itself shows them."""
        rows = self._rows[table]
        shown = self._db.sql(f"SELECT * FROM {backquoted(table)}").rows()
        assert len(shown) == len(rows), f"{table}: {len(shown)} rows are shown of {len(rows)}"
        taken = {number % len(rows) for number in numbers} if rows else set()
        if not taken:
            return
        told = self._truth.told(table, rows)
        for row in (shown[at] for at in taken):
            sought = _told(self._case.tables[table], row)
            assert sought in told, f"{table}: {row} is not a row that was inserted"
            del rows[told.index(sought)], told[told.index(sought)]
        self._db.delete(table, [shown[at] for at in taken])

    def _step(self) -> None:
        try:
            self._db.step()
        except LaminarError as error:
            self.failure = str(error)  # of one view; whether it may fail is looked at below

    def _reopen(self) -> None:
        self._db.close()
        self._db = self._open()

    def _pause(self) -> None:
        for name in self._defined[:1]:
            self._db.execute(f"PAUSE MATERIALIZED VIEW {name}")
            self._step()
            self._db.execute(f"RESUME MATERIALIZED VIEW {name}")
        self._step()

    def _restore(self) -> None:
        self._db.restore(self._db.checkpoint())
        self._step()

    def _compact(self) -> None:
        self._db.engine.settle()

    def _replace(self) -> None:
        """Let a view be what another one is, and then itself again."""
        if not self._defined:
            return
        first, last = self._defined[0], self._defined[-1]
        for name in (first, last):
            query = self._case.views[name]
            try:
                self._db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW {last} AS {query}")
            except LaminarError:
                if self._truth.answer(name, self._rows) is not None:
                    raise

    def _compare(self, when: str) -> None:
        for name in [*self._case.tables, *self._defined]:
            truth = self._truth.answer(name, self._rows)
            if truth is None:  # overflow, a cast that fails: there is no answer now
                self.tally.failed_alike += 1
                continue
            found = shown(self._db.sql(f"SELECT * FROM {backquoted(name)}").spark())
            query = self._case.views.get(name, "")
            try:
                _assert_same(found, truth, query, self._case.family)
            except AssertionError as error:
                why = self._db.sql(
                    "SELECT state, state_reason FROM laminar_system.materialized_views"
                    f" WHERE name = '{name}'"
                ).rows()
                raise AssertionError(f"{when}, {name}: {query}\n{error}\n{why}") from error
            shape = name.partition("_")[2] if query else "table"
            self.tally.compared[f"{self._case.family} {shape}"] += 1


class Truth:
    """What Spark answers over the rows that are there; asked once for each state of them."""

    def __init__(self, case: WildCase, session: SparkSession) -> None:
        self._case = case
        self._session = session
        self._bound: dict[str, list[list[str]]] = {}
        self._known: dict[str, list[Row] | None] = {}

    def answer(self, name: str, rows: dict[str, list[list[str]]]) -> list[Row] | None:
        """Return the rows of a table or view; None if it, or a view it reads, has no answer."""
        if rows != self._bound:
            for table, columns in self._case.tables.items():
                if self._bound.get(table) != rows[table]:
                    _bind(self._session, table, columns, rows[table])
            for view, query in self._case.views.items():
                self._session.sql(query).createOrReplaceTempView(view)
            self._bound = {table: list(each) for table, each in rows.items()}
            self._known = {}
        if name not in self._known:
            query = self._case.views.get(name, "")
            above = [self.answer(each, rows) for each in _read(query) if each in self._case.views]
            self._known[name] = None if None in above else self._asked(name)
        return self._known[name]

    def _asked(self, name: str) -> list[Row] | None:
        try:
            return shown(self._session.sql(f"SELECT * FROM {backquoted(name)}"))
        except Exception:  # what Spark has against a query differs: it does not answer
            return None

    def told(self, table: str, rows: list[list[str]]) -> list[Any]:
        """Return rows of literals as `_told` tells rows that the database shows."""
        columns = self._case.tables[table]
        frame = _frame(self._session, columns, rows, "0 AS `#`")
        return [_told(columns, row[1:]) for row in sorted(frame.collect(), key=lambda row: row[0])]


def _read(query: str) -> list[str]:
    """Return the views that a query reads."""
    return re.findall(r"\bv\d+_\w+", query)


def _told(columns: Columns, row: Any) -> Any:
    """Return a row as something that is equal for the same values, whoever collected them."""

    def of(value: Any, kind: str) -> Any:
        if value is None or kind not in ("instant", "variant"):
            return value
        if kind == "variant":
            return (value.toJson(), type(value.toPython()).__name__)
        since = value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1)

    return frozen(tuple(of(value, kind) for value, kind in zip(row, columns.values(), strict=True)))


def _assert_same(found: list[Row], truth: list[Row], query: str, family: str) -> None:
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


def bind_empty(session: SparkSession, case: WildCase) -> None:
    """Let a session know the tables of a case, so that it says which queries make sense."""
    for name, columns in case.tables.items():
        _bind(session, name, columns, [])


def session_in(spark: SparkSession, zone: str, *, ansi: bool = True) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


def _declared(columns: Columns) -> str:
    return ", ".join(
        f"{backquoted(column)} {ALL_KINDS[kind].ddl}" for column, kind in columns.items()
    )


def _bind(session: SparkSession, name: str, columns: Columns, rows: list[list[str]]) -> None:
    frame = _frame(session, columns, rows)
    if rows:  # what is computed once is not folded into the queries
        frame = frame.coalesce(1).localCheckpoint()
    frame.createOrReplaceTempView(backquoted(name))


def _frame(
    session: SparkSession, columns: Columns, rows: list[list[str]], number: str = ""
) -> DataFrame:
    """Return rows of literals; with a number, each says its place first."""
    types = [ALL_KINDS[kind].ddl for kind in columns.values()]
    given = " UNION ALL ".join(
        f"SELECT {number.replace('0', str(place), 1)}{', ' if number else ''}"
        + ", ".join(
            f"CAST({each} AS {kind}) AS {backquoted(column)}"
            for each, column, kind in zip(row, columns, types, strict=True)
        )
        for place, row in enumerate(rows)
    )
    nothing = ", ".join(
        f"CAST(NULL AS {kind}) AS {backquoted(column)}"
        for column, kind in zip(columns, types, strict=True)
    )
    return session.sql(given or f"SELECT {nothing} WHERE FALSE")


def shown(frame: DataFrame) -> list[Row]:
    kinds = {kind.ddl.split("(")[0].lower(): kind.shown for kind in KINDS.values()}
    forms = [(each.name, kinds.get(each.dataType.simpleString(), "{0}")) for each in frame.schema]
    items = [f"{form.format(f'`{name}`')} AS `{name}`" for name, form in forms]
    return [tuple(row) for row in frame.selectExpr(*items).collect()]


def makes_sense(session: SparkSession, query: str) -> bool:
    return not _fails(lambda: session.sql(query).schema)


def _fails(run: Callable[[], object]) -> bool:
    try:
        run()
    except Exception:
        return True
    return False
