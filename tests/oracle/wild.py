"""Random views over tables of any types, under changes, reopening, pauses and going back.

The truth is Spark's answer to each view's query over the rows that the script of literals says are
there. A case is plain JSON, so that a failure can be kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import laminar
from laminar.errors import LaminarError
from laminar.model.quoting import backquoted
from laminar.testing.bags import assert_same_bag

from .kinds import KINDS, NUMBERS, TEXTS, TIMES
from .wild_queries import Columns, WildWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZONES = ("UTC", "America/New_York", "Europe/Amsterdam", "Asia/Kolkata", "Australia/Lord_Howe")
FAMILIES = (NUMBERS, TEXTS, TIMES, KINDS)
STEPS = ("change", "change", "change", "reopen", "pause", "restore", "replace", "compact")


@dataclass
class WildCase:
    """What is defined, and what happens."""

    zone: str
    tables: dict[str, Columns]
    views: dict[str, str] = field(default_factory=dict)
    steps: list[list[Any]] = field(default_factory=list)
    """["change", {table: [literals of a row, ...]}, {table: [rows to delete]}] and others."""


@dataclass
class Tally:
    """What became of the views."""

    compared: int = 0
    failed_alike: int = 0
    refused: dict[str, int] = field(default_factory=dict)


def wild_case(chance: random.Random, spark: SparkSession, *, views: int = 8) -> WildCase:
    """Make one up; queries that Spark's analyzer refuses are drawn again."""
    family = chance.choice(FAMILIES)
    words = _names(chance, spark)
    tables: dict[str, Columns] = {
        next(words): {
            "id": "int",
            **{next(words): chance.choice(sorted(family)) for _ in range(chance.randint(2, 4))},
        }
        for _ in range(2)
    }
    case = WildCase(chance.choice(ZONES), tables)
    session = session_in(spark, case.zone)
    bind_empty(session, case)
    writer = WildWriter(chance, _written(chance, tables))
    while len(case.views) < views:
        query = writer.query()
        if makes_sense(session, query):
            case.views[f"v{len(case.views)}"] = query
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
                "NULL" if chance.random() < 0.15 else chance.choice(KINDS[kind].literals)
                for kind in columns.values()
            ]
            for _ in range(chance.randint(0, 4))
        ]
        added[name] = [*rows, *rows[:1]]  # one row twice
    gone = {name: [chance.randint(0, 99) for _ in range(chance.randint(0, 3))] for name in tables}
    return ["change", added, gone]


class WildRun:
    """Runs a case, and compares after every epoch."""

    def __init__(self, case: WildCase, spark: SparkSession, path: Path) -> None:
        self._case = case
        self._path = path
        self._truth = session_in(spark, case.zone)
        self._spark = session_in(spark, case.zone)
        self._rows: dict[str, list[list[str]]] = {name: [] for name in case.tables}
        self._defined: list[str] = []
        self.tally = Tally()

    def run(self) -> Tally:
        """Run all; raise an AssertionError that names the view that is wrong."""
        self._db = self._open()
        try:
            for name, columns in self._case.tables.items():
                listed = ", ".join(
                    f"{backquoted(column)} {KINDS[kind].ddl}" for column, kind in columns.items()
                )
                self._db.execute(f"CREATE TABLE {backquoted(name)} ({listed})")
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
            try:
                self._db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                self._defined.append(name)
            except LaminarError as error:
                if not _fails(lambda query=query: self._answer(query)):  # type: ignore[misc]
                    self.tally.refused[error.code] = self.tally.refused.get(error.code, 0) + 1

    def _change(self, added: dict[str, list[list[str]]], gone: dict[str, list[int]]) -> None:
        for name, numbers in gone.items():
            for number in numbers:
                self._delete(name, number)
        for name, rows in added.items():
            if rows:
                listed = ", ".join(f"({', '.join(row)})" for row in rows)
                self._db.execute(f"INSERT INTO {backquoted(name)} VALUES {listed}")
                self._rows[name] += rows
        self._step()

    def _delete(self, table: str, number: int) -> None:
        """Delete one row as the database itself shows it."""
        if not self._rows[table]:
            return
        shown = self._db.sql(f"SELECT * FROM {backquoted(table)}").rows()
        if len(shown) != len(self._rows[table]):
            return  # some of this change are not committed yet
        at = number % len(shown)
        places = [
            place for place, row in enumerate(self._rows[table])
            if self._same(table, row, shown[at])
        ]  # fmt: skip
        assert places, f"{table}: {shown[at]} is not a row that was inserted"
        self._db.delete(table, [shown[at]])
        del self._rows[table][places[0]]
        self._step()

    def _same(self, table: str, row: list[str], shown: tuple[Any, ...]) -> bool:
        kinds = self._case.tables[table].values()
        listed = ", ".join(
            _instant(kind).format(f"CAST({each} AS {KINDS[kind].ddl})") + f" AS c{place}"
            for place, (each, kind) in enumerate(zip(row, kinds, strict=True))
        )
        found = [tuple(each) for each in self._truth.sql(f"SELECT {listed}").collect()]
        told = tuple(
            _micros(value) if kind == "instant" else value
            for value, kind in zip(shown, kinds, strict=True)
        )
        return not _fails(lambda: assert_same_bag(found, [told]))

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
        for name in self._defined[-1:]:
            for query in (self._case.views[self._defined[0]], self._case.views[name]):
                try:
                    self._db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}")
                except LaminarError:
                    if not _fails(lambda query=query: self._answer(query)):  # type: ignore[misc]
                        raise

    def _answer(self, query: str) -> list[tuple[Any, ...]]:
        for name, columns in self._case.tables.items():
            _bind(self._truth, name, columns, self._rows[name])
        return shown(self._truth.sql(query))

    def _compare(self, when: str) -> None:
        for name in [*self._case.tables, *self._defined]:
            query = self._case.views.get(name, f"SELECT * FROM {backquoted(name)}")
            try:
                truth = self._answer(query)
            except Exception:  # overflow, a cast that fails: there is no answer now
                self.tally.failed_alike += 1
                continue
            found = shown(self._db.sql(f"SELECT * FROM {backquoted(name)}").spark())
            try:
                assert_same_bag(found, truth)
            except AssertionError as error:
                why = self._db.sql(
                    "SELECT state, state_reason FROM laminar_system.materialized_views"
                    f" WHERE name = '{name}'"
                ).rows()
                raise AssertionError(f"{when}, {name}: {query}\n{error}\n{why}") from error
            self.tally.compared += 1


def bind_empty(session: SparkSession, case: WildCase) -> None:
    """Let a session know the tables of a case, so that it says which queries make sense."""
    for name, columns in case.tables.items():
        _bind(session, name, columns, [])


def session_in(spark: SparkSession, zone: str) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


def _instant(kind: str) -> str:
    """Return how an instant is told in a way that no zone of Python has a part in."""
    return KINDS[kind].shown if kind == "instant" else "{0}"


def _micros(value: datetime | None) -> int | None:
    if value is None:
        return None
    since = value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def _bind(session: SparkSession, name: str, columns: Columns, rows: list[list[str]]) -> None:
    types = [KINDS[kind].ddl for kind in columns.values()]
    given = " UNION ALL ".join(
        "SELECT "
        + ", ".join(
            f"CAST({each} AS {kind}) AS {backquoted(column)}"
            for each, column, kind in zip(row, columns, types, strict=True)
        )
        for row in rows
    )
    nothing = ", ".join(
        f"CAST(NULL AS {kind}) AS {backquoted(column)}"
        for column, kind in zip(columns, types, strict=True)
    )
    session.sql(given or f"SELECT {nothing} WHERE FALSE").createOrReplaceTempView(backquoted(name))


def shown(frame: DataFrame) -> list[tuple[Any, ...]]:
    kinds = {kind.ddl.split("(")[0].lower(): kind.shown for kind in KINDS.values()}
    shown = [(each.name, kinds.get(each.dataType.simpleString(), "{0}")) for each in frame.schema]
    items = [f"{form.format(f'`{name}`')} AS `{name}`" for name, form in shown]
    return [tuple(row) for row in frame.selectExpr(*items).collect()]


def makes_sense(session: SparkSession, query: str) -> bool:
    return not _fails(lambda: session.sql(query).schema)


def _fails(run: Callable[[], object]) -> bool:
    try:
        run()
    except Exception:
        return True
    return False
