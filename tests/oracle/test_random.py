"""Random views over views under random changes: every view equals its recomputation, always.

`make test` runs some that failed once, `make test-all` twelve, LAMINAR_EXAMPLES=200 as many. A
failure prints its scenario; kept as a file in fixtures/ it is run for ever after.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .scenario import Scenario, random_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.json"))
SLOW = {"resets_in_every_epoch", "constant_in_a_fused_view", "infinity_retracted"}


def fixture(path: Path) -> Any:
    """Return a case of what failed once, under its name."""
    return pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem in SLOW))


@pytest.mark.long
@pytest.mark.spark
@settings(
    max_examples=int(os.environ.get("LAMINAR_EXAMPLES", "12")),
    phases=(Phase.explicit, Phase.generate),  # shrinking runs hundreds of databases
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_random_views_equal_recomputation(spark: SparkSession, seed: int) -> None:
    scenario = random_scenario(random.Random(seed))
    try:
        scenario.run(spark)
    except Exception as error:
        error.add_note(f"seed {seed}\n{json.dumps(asdict(scenario))}")
        raise


@pytest.mark.spark
@pytest.mark.parametrize("path", [fixture(path) for path in FIXTURES])
def test_what_failed_once_stays_right(spark: SparkSession, path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    data.pop("about", None)
    Scenario(**data).run(spark)
