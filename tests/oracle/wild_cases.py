"""What a random case has: tables of any types, views over them, and what happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from laminar.model.quoting import backquoted

from .kinds import ALL_KINDS, CHARS, COLLATED, INTERVALS, KINDS, NUMBERS, TEXTS, TIMES
from .wild_frames import bind, session_in
from .wild_queries import Columns, WildWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ("UTC", "America/New_York", "Europe/Amsterdam", "Asia/Kolkata", "Australia/Lord_Howe")
FAMILIES = {
    "numbers": NUMBERS, "texts": TEXTS, "times": TIMES, "any": KINDS, "collated": COLLATED,
    "chars": CHARS, "intervals": INTERVALS,
}  # fmt: skip
STEPS = ("change", "change", "change", "reopen", "pause", "restore", "replace", "compact")
WITH_ROWS = ("change", "elsewhere")


@dataclass
class WildCase:
    """What is defined, and what happens."""

    zone: str
    tables: dict[str, Columns]
    views: dict[str, str] = field(default_factory=dict)
    steps: list[list[Any]] = field(default_factory=list)
    """["change", {table: [literals of a row, ...]}, {table: [rows to delete]}, are they one epoch],
    the same by another Spark ("elsewhere"), and others."""
    family: str = "any"
    ansi: bool = True


def wild_case(
    chance: random.Random,
    spark: SparkSession,
    *,
    views: int = 8,
    among: tuple[str, ...] = STEPS,
    without: Collection[str] = (),
) -> WildCase:
    """Make one up; queries that Spark's analyzer refuses are drawn again.

    Args:
        chance: what decides.
        spark: says which queries make sense.
        views: how many.
        among: steps to draw from.
        without: kinds of columns that there are not.
    """
    family = chance.choice(sorted(FAMILIES))
    kinds = sorted(FAMILIES[family].keys() - set(without))
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
    case.steps = [random_change(chance, tables)]
    for _ in range(chance.randint(3, 6)):
        step = chance.choice(among)
        rows = random_change(chance, tables)[1:] if step in WITH_ROWS else []
        case.steps.append([step, *rows])
    case.steps.append(random_change(chance, tables))
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


def random_change(chance: random.Random, tables: dict[str, Columns]) -> list[Any]:
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


def bind_empty(session: SparkSession, case: WildCase) -> None:
    """Let a session know the tables of a case, so that it says which queries make sense."""
    for name, columns in case.tables.items():
        bind(session, name, columns, [])


def makes_sense(session: SparkSession, query: str) -> bool:
    return not _fails(lambda: session.sql(query).schema)


def _fails(run: Callable[[], object]) -> bool:
    try:
        run()
    except Exception:
        return True
    return False
