"""Views over columns of every type, in every zone, through changes, reopening, pauses and restores.

`make test-all` runs one that it has never run before: its seed is the day. `make soak` runs more:
LAMINAR_EXAMPLES=200 so many, from LAMINAR_SEED on; LAMINAR_TALLY=file gets a line of JSON for each,
with what was compared by types and shapes. What fails is written into fixtures/wild, where it is
run for ever after. With LAMINAR_OTHER_PYTHON=python, one of an environment with another Spark, that
one takes over now and then: see `make test-upgrades`.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .kinds import TIME_OF_DAY
from .other_spark import OtherSpark
from .wild import WildRun
from .wild_cases import WildCase, wild_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

KEPT = Path(__file__).parent / "fixtures" / "wild"
TODAY = int(datetime.now(UTC).strftime("%Y%m%d"))
FIRST = int(os.environ.get("LAMINAR_SEED", TODAY))
COUNT = int(os.environ.get("LAMINAR_EXAMPLES", "8")) if "LAMINAR_SOAK" in os.environ else 1


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_wild_views_equal_what_spark_answers(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    case = wild_case(random.Random(seed), spark)
    try:
        tally = WildRun(case, spark, tmp_path / "state").run()
    except Exception as error:
        KEPT.mkdir(exist_ok=True)
        kept = KEPT / f"seed_{seed}.json"
        kept.write_text(json.dumps(asdict(case), indent=1), encoding="utf-8")
        error.add_note(f"seed {seed} is kept as {kept.name}: {asdict(case)}")
        raise
    if "LAMINAR_TALLY" in os.environ:
        with Path(os.environ["LAMINAR_TALLY"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"seed": seed, **vars(tally)}) + "\n")
    assert tally.compared.total() > 0


OTHER = os.environ.get("LAMINAR_OTHER_PYTHON", "")
TURNS = ("change", "elsewhere", "elsewhere", "reopen", "pause", "restore", "compact")


@pytest.mark.skipif(not OTHER, reason="LAMINAR_OTHER_PYTHON names no Python with another Spark")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_another_spark_goes_on_with_what_is_there(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Up and down between two versions, with changes under both: every view holds its answer."""
    other = OtherSpark(OTHER, tmp_path)
    assert other.version() != spark.version
    older = min(other.version(), spark.version)
    without = TIME_OF_DAY if older < "4.2" else ()
    case = wild_case(random.Random(seed), spark, views=5, among=TURNS, without=without)
    case.steps[1:] = [["elsewhere", *case.steps[-1][1:]], *case.steps[1:4]]
    tally = WildRun(case, spark, tmp_path / "state", other).run()
    assert tally.compared.total() > 0


@pytest.mark.parametrize("kept", [each.name for each in sorted(KEPT.glob("*.json"))])
def test_what_failed_once_stays_right(spark: SparkSession, tmp_path: Path, kept: str) -> None:
    case = WildCase(**json.loads((KEPT / kept).read_text(encoding="utf-8")))
    assert WildRun(case, spark, tmp_path / "state").run().compared.total() > 0
