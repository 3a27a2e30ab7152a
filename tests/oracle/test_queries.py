"""Random queries, deeper than anybody writes them: all are planned, and maintained exactly."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from laminar.delta.compile import compile_query
from laminar.delta.program import Shape
from laminar.errors import LaminarError
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule
from laminar.runtime.catalog.storage_plan import StoragePlan
from laminar.runtime.introspection.explain import statements
from laminar.session import connect
from laminar.testing import FixedTyper, Oracle

from .queries import TABLES, Writer
from .script import THOROUGH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STUMBLED = (
    "SELECT 1 AS one",
    "SELECT t.k FROM t LEFT JOIN (VALUES (1), (2)) AS v(k) ON t.k = v.k",
    "SELECT k FROM t WHERE k NOT IN (SELECT k + 1 FROM (SELECT k + 2 AS k FROM u))",
    "SELECT v.k FROM ((VALUES (1), (NULL)) AS v(k)) LEFT SEMI JOIN t ON v.k = t.k",
    "SELECT t.k FROM t LEFT JOIN (SELECT k + 1 AS k FROM (SELECT k FROM u)) q ON t.k = q.k",
)


def plan(query: str) -> None:
    """Plan a query as a view, and write all statements that an epoch may run."""
    typer = FixedTyper()
    lowered = lower(parse_query(query), TABLES, typer)
    kinds = typer.types(lowered.node)
    shape = Shape("v", lowered.names, tuple(kinds[name] for name in lowered.node.columns))
    found = compile_query(shape, lowered.node, typer)
    stored = StoragePlan(finished=frozenset(each.shape.name for each in found.relations))
    for relation in found.relations:
        assert all(text for _, text in statements(relation, stored))


@pytest.mark.parametrize("query", STUMBLED)
def test_what_stumbled_once_is_planned(query: str) -> None:
    plan(query)


def test_every_query_gets_a_plan_or_a_reason() -> None:
    for seed in range(1000 if THOROUGH else 30):
        query = Writer(random.Random(seed)).query(2)[0]
        try:
            plan(query)
        except NoRule:
            pass
        except Exception as error:
            error.add_note(f"seed {seed}: {query}")
            raise


VIEWS = 6


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("seed", range(8 if "LAMINAR_SOAK" in os.environ else 4))
def test_random_queries_equal_recomputation(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    views: dict[str, str] = {}
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        for name, columns in TABLES.items():
            oracle.table(name, ", ".join(f"{column} INT" for column in columns))

        def define(count: int) -> None:
            while len(views) < count:
                name, query = f"v{len(views)}", Writer(chance).query(2)[0]
                try:
                    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                except LaminarError:
                    continue  # Spark takes no nested query there
                views[name] = query

        define(VIEWS // 2)
        for epoch in range(4):
            for name, columns in TABLES.items():
                if epoch:
                    count = 99 if chance.random() < 0.1 else chance.randint(0, 2)
                    oracle.delete(name, oracle.tables[name].some(chance, count))
                rows = [
                    tuple(chance.choice((None, 0, 1, 1, 2, 3)) for _ in columns)
                    for _ in range(chance.randint(0, 3))
                ]
                oracle.insert(name, [*rows, *rows[:1]])
            db.step()
            if epoch == 0:
                define(VIEWS)
            for name, problem in oracle.problems():
                assert problem == "fell back to full", f"{name}: {problem}\n{views.get(name)}"
