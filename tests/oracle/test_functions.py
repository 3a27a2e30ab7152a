"""What Spark documents of its functions, as views: each holds what Spark answers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOOL = Path(__file__).parents[2] / "tools" / "function_table.py"
SAMPLE = {
    "concat": "incremental",
    "between": "incremental",
    "max_by": "affected groups",
    "collect_list": "affected groups",
    "rand": "refused",
}


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location(TOOL.stem, TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[TOOL.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_a_sample_of_functions_is_what_spark_answers(spark: SparkSession, tool: Any) -> None:
    found = tool.find_out(spark, SAMPLE)
    tool.compare(spark, found)
    assert found.strategies == SAMPLE
    assert found.differing == []
    assert found.equal >= 6
