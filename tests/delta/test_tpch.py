"""All of TPC-H has a rule: no query of the 22 is recomputed in full. No Spark."""

from __future__ import annotations

import pytest
from tests.oracle.tpch import COLUMNS, QUERIES

from laminar.delta.compile import compile_query
from laminar.delta.program import Merged, Program, Shape, Strategy
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.testing import FixedTyper

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
