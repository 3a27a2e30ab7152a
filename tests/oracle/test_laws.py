"""Laws that hold whatever the right answer is: no oracle, nothing Spark and we get wrong alike.

The rows, types and queries are those of `wild.py`. `make test-all` takes one seed, `make soak` as
many as LAMINAR_EXAMPLES says, from LAMINAR_SEED on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import laminar
from laminar.errors import LaminarError
from laminar.model.quoting import backquoted
from laminar.testing.bags import assert_same_bag

from .kinds import ALL_KINDS
from .wild_cases import WildCase, bind_empty, makes_sense, wild_case
from .wild_frames import session_in, shown
from .wild_queries import WildWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

FIRST = int(os.environ.get("LAMINAR_SEED", "1"))
COUNT = int(os.environ.get("LAMINAR_EXAMPLES", "8")) if "LAMINAR_SOAK" in os.environ else 1
SEEDS = range(FIRST, FIRST + COUNT)

Batch = dict[str, list[list[str]]]
"""Table -> rows, as literals."""


@contextmanager
def opened(case: WildCase, spark: SparkSession, path: Path) -> Iterator[laminar.Database]:
    with laminar.connect(path, spark=session_in(spark, case.zone, ansi=case.ansi)) as db:
        db.execute("SET laminar.max_failures = 1000; SET laminar.retry_backoff_ms = 0")
        for name, columns in case.tables.items():
            listed = ", ".join(
                f"{backquoted(each)} {ALL_KINDS[kind].ddl}" for each, kind in columns.items()
            )
            db.execute(f"CREATE TABLE {backquoted(name)} ({listed})")
        yield db


def define(db: laminar.Database, views: dict[str, str]) -> None:
    """Define those that can be; rows that are there may be ones for which a query fails."""
    for name, query in views.items():
        try:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        except LaminarError:
            continue


def push(db: laminar.Database, batch: Batch) -> None:
    for name, rows in batch.items():
        if rows:
            listed = ", ".join(f"({', '.join(row)})" for row in rows)
            db.execute(f"INSERT INTO {backquoted(name)} VALUES {listed}")


def take_back(db: laminar.Database, batch: Batch) -> None:
    """Delete the rows of a batch, found by a column `id` that no other row has."""
    for name, rows in batch.items():
        if rows:
            db.execute(
                f"DELETE FROM {backquoted(name)} WHERE id IN ({', '.join(row[0] for row in rows)})"
            )


def step(db: laminar.Database) -> None:
    try:
        db.step()
    except LaminarError:
        return  # of one view, which is then compared with none


def contents(db: laminar.Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every view that has not failed, and can be read.

    A view that is not stored is computed as it is read; what it casts may not be a number.
    """
    standing = db.sql(
        "SELECT name FROM laminar_system.materialized_views WHERE state_reason IS NULL"
    ).rows()
    found = {}
    for (name,) in standing:
        with suppress(PySparkException):
            found[name] = shown(db.sql(f"SELECT * FROM `{name}`").spark())
    return found


def compare(some: dict[str, Any], others: dict[str, Any], case: WildCase) -> int:
    """Compare what both have, and return how much that was."""
    both = some.keys() & others.keys()
    for name in sorted(both):
        try:
            assert_same_bag(some[name], others[name])
        except AssertionError as error:
            raise AssertionError(f"{name}: {case.views[name]}\n{error}") from error
    return len(both)


def batches(case: WildCase) -> list[Batch]:
    """Return the rows of a case, each with an `id` of its own."""
    number = 0
    found: list[Batch] = []
    for what, *given in case.steps:
        if what == "change":
            batch: Batch = {}
            for name, rows in given[0].items():
                batch[name] = [[str(number + at), *row[1:]] for at, row in enumerate(rows)]
                number += len(rows)
            found.append(batch)
    return found


def together(parts: Iterable[Batch]) -> Batch:
    whole: Batch = {}
    for part in parts:
        for name, rows in part.items():
            whole.setdefault(name, []).extend(rows)
    return whole


@pytest.mark.parametrize("seed", SEEDS)
def test_one_epoch_or_many_in_any_order(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Rows that come at once, before their views, in another order, give the same as one by one."""
    chance = random.Random(seed)
    case = wild_case(chance, spark)
    many = batches(case)
    gone = {name: chance.sample(rows, len(rows) // 2) for name, rows in together(many).items()}
    with opened(case, spark, tmp_path / "many") as db:
        define(db, case.views)
        for batch in many:
            push(db, batch)
            step(db)
        take_back(db, gone)
        step(db)
        slowly = contents(db)
    with opened(case, spark, tmp_path / "once") as db:
        for batch in reversed(many):
            push(db, dict(reversed(batch.items())))
        take_back(db, gone)
        step(db)
        define(db, dict(reversed(case.views.items())))
        define(db, case.views)  # those that read others of them
        at_once = contents(db)
    assert compare(slowly, at_once, case) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_taken_back_was_never_there(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    case = wild_case(random.Random(seed), spark)
    first, *more = batches(case)
    with opened(case, spark, tmp_path) as db:
        push(db, first)
        define(db, case.views)
        step(db)
        then = contents(db)
        for batch in more:
            push(db, batch)
            step(db)
        take_back(db, together(more))
        step(db)
        assert compare(then, contents(db), case) > 0


LINEAR = (
    "SELECT {items} FROM {of} x{where}",
    "SELECT {items} FROM {of} x JOIN {other} y ON {on}",
    "SELECT {items} FROM {of} x LEFT JOIN {other} y ON {on}",
    "SELECT {items} FROM {of} x LEFT ANTI JOIN {other} y ON {on}",
    "SELECT {items} FROM {of} x LEFT SEMI JOIN {other} y ON {on}",
)
"""Queries that are sums over the rows of `x`: over a union, the union of those over its parts."""


def linear_query(chance: random.Random, case: WildCase) -> str:
    """Return a query over {of}, which has the columns of the first table."""
    columns, (other, theirs) = next(iter(case.tables.values())), list(case.tables.items())[1]
    ours = {f"x.{backquoted(each)}": kind for each, kind in columns.items()}
    return chance.choice(LINEAR).format(
        of="{of}",
        other=backquoted(other),
        items=WildWriter(chance, {"x": ours}).items(),
        where=f" WHERE {chance.choice(list(ours))} IS NOT NULL",
        on=f"{chance.choice(list(ours))} = y.{backquoted(chance.choice(list(theirs)))}",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_view_over_a_union_is_the_union_of_views(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    case = wild_case(chance, spark, views=0)
    first, second = case.tables
    case.tables["third"] = case.tables[first]
    session = session_in(spark, case.zone, ansi=case.ansi)
    bind_empty(session, case)
    while len(case.views) < 6:
        query = linear_query(chance, case)
        if makes_sense(session, query.format(of=backquoted(first))):
            case.views[f"v{len(case.views)}"] = query
    with opened(case, spark, tmp_path) as db:
        one, two = (f"SELECT * FROM {backquoted(name)}" for name in (first, "third"))
        define(db, {"u": f"{one} UNION ALL {two}"})
        for name, query in case.views.items():
            parts = [query.format(of=backquoted(each)) for each in (first, "third")]
            define(db, {name: query.format(of="u"), f"{name}_parts": " UNION ALL ".join(parts)})
        for batch in batches(case):
            rows = batch[first]
            push(db, {first: rows[::2], second: batch[second], "third": rows[1::2]})
            step(db)
            now = contents(db)
            parts_now = {each.removesuffix("_parts"): now[each] for each in now if "_" in each}
            whole = {name: now[name] for name in now.keys() & case.views.keys()}
            assert compare(whole, parts_now, case) > 0
