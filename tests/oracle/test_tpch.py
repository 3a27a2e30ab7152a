"""TPC-H as views: every query has a rule, and equals its recomputation while tables change."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from laminar.delta.compile import compile_query
from laminar.delta.program import Merged, Program, Shape, Strategy
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.session import connect
from laminar.testing import FixedTyper, Oracle

from .script import THOROUGH
from .tpch import COLUMNS, MADE, QUERIES, SIZES, TABLES, WRITTEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOUCHED = {"q16", "q21"}
"""COUNT DISTINCT, and EXISTS by more than equalities."""


def program(sql: str) -> Program:
    typer = FixedTyper()
    lowered = lower(parse_query(sql), COLUMNS, typer)
    found = typer.types(lowered.node)
    shape = Shape("v", lowered.names, tuple(found[name] for name in lowered.node.columns))
    return compile_query(shape, lowered.node, typer)


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_has_a_rule(name: str) -> None:
    expected = Strategy.AFFECTED_GROUPS if name in TOUCHED else Strategy.INCREMENTAL
    assert program(QUERIES[name]).strategy is expected


def test_a_with_item_that_is_used_twice_is_kept_once() -> None:
    found = program(QUERIES["q15"]).relations
    sums = [each for each in found if isinstance(each, Merged) and each.reads == ("lineitem",)]
    assert len(sums) == 1


CHOSEN = list(QUERIES) if THOROUGH else ["q13", "q15", "q20", "q21", "q22"]


@pytest.mark.spark
@pytest.mark.long
def test_queries_equal_recomputation(spark: SparkSession) -> None:
    chance = random.Random(48)  # every query finds something
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        for name, ddl in TABLES.items():
            oracle.table(name, ddl)
        for name, rows in WRITTEN.items():
            oracle.insert(name, rows)
        for name, make in MADE.items():
            oracle.insert(name, [make(chance) for _ in range(SIZES[name])])
        for name in CHOSEN:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name]}")
        oracle.step()
        empty = [name for name in CHOSEN if not db.sql(f"SELECT * FROM {name}").rows()]
        assert empty == []
        for changing in (list(MADE), ["lineitem", "orders"]):
            for name in changing:
                oracle.delete(name, oracle.tables[name].some(chance, SIZES[name] // 4))
                oracle.insert(name, [MADE[name](chance) for _ in range(SIZES[name] // 4)])
            oracle.step()
