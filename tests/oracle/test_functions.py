"""Spark's functions, types and clauses as views: what Spark answers, at the cost that is told."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOOLS = Path(__file__).parents[2] / "tools"
SEEN = json.loads((Path(__file__).parents[1] / "fixtures" / "sql_table.json").read_text("utf-8"))
PARTS = 16
SLICES = 2 * PARTS


@pytest.fixture(scope="module")
def tool() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        yield importlib.import_module("function_table")


@pytest.fixture
def same_spark(spark: SparkSession) -> SparkSession:
    if spark.version != SEEN["spark"]:
        pytest.skip(f"the page is of Spark {SEEN['spark']}")
    return spark


def test_the_pages_show_what_was_seen(tool: Any) -> None:
    assert tool.PAGE.read_text("utf-8") == tool.page(SEEN)
    told = tool.SUMMARY.read_text("utf-8")
    assert tool.BEGIN in told
    assert told == tool.with_summary(told, SEEN)


def test_a_run_saw_nothing_that_differs() -> None:
    assert SEEN["differing"] == []
    wrong = [use for uses in SEEN["types"].values() for use in uses.values() if "WRONG" in use]
    assert wrong == []


@pytest.mark.long
@pytest.mark.spark
def test_every_function_of_spark_is_told(same_spark: SparkSession, tool: Any) -> None:
    assert tool.functions_of(same_spark) == list(SEEN["functions"])


@pytest.mark.spark
@pytest.mark.sampled(SLICES)
@pytest.mark.parametrize("part", range(SLICES))
def test_documented_examples_hold_what_spark_answers(
    same_spark: SparkSession, tool: Any, part: int
) -> None:
    names = list(SEEN["functions"])[part::SLICES]
    found = tool.try_functions(same_spark, names)
    assert found.differing == []
    assert found.strategies() == {name: sorted(SEEN["functions"][name]) for name in names}


@pytest.mark.spark
@pytest.mark.sampled(PARTS)
@pytest.mark.parametrize("kind", SEEN["types"])
def test_columns_of_a_type_do_what_is_told(same_spark: SparkSession, tool: Any, kind: str) -> None:
    assert tool.try_type(same_spark, kind) == SEEN["types"][kind]


@pytest.mark.long
@pytest.mark.spark
def test_clauses_cost_what_is_told(same_spark: SparkSession, tool: Any) -> None:
    assert tool.try_clauses(same_spark) == SEEN["clauses"]
