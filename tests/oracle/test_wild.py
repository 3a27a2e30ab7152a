"""Views over columns of every type, in every zone, through changes, reopening, pauses and restores.

`make soak` runs them: LAMINAR_EXAMPLES=200 so many, from LAMINAR_SEED on. A failure prints its
case.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .wild import WildRun, wild_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = int(os.environ.get("LAMINAR_SEED", "1"))
COUNT = int(os.environ.get("LAMINAR_EXAMPLES", "8"))


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_wild_views_equal_what_spark_answers(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    case = wild_case(random.Random(seed), spark)
    try:
        tally = WildRun(case, spark, tmp_path / "state").run()
    except Exception as error:
        error.add_note(f"seed {seed}\n{json.dumps(asdict(case))}")
        raise
    assert tally.compared > 0
