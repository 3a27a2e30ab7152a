"""Views over columns of every type, in every zone, through changes, reopening, pauses and restores.

`make test` runs one case, `make test-all` eight; LAMINAR_EXAMPLES=200 as many as that, from
LAMINAR_SEED on. A failure prints its case; kept as a file in wild/ it is run for ever after.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .script import THOROUGH
from .wild import WildCase, WildRun, wild_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = sorted((Path(__file__).parent / "wild").glob("*.json"))
FIRST = int(os.environ.get("LAMINAR_SEED", "1"))
COUNT = int(os.environ.get("LAMINAR_EXAMPLES", "8" if THOROUGH else "1"))


@pytest.mark.spark
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


@pytest.mark.spark
@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_what_went_wrong_once_stays_right(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    case = WildCase(**json.loads(path.read_text(encoding="utf-8")))
    assert WildRun(case, spark, tmp_path / "state").run().compared > 0
