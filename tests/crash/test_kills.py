"""kill -9 at any instant: no row is lost, doubled or different, and the sink agrees.

`make test` kills once, `make test-all` ten times, `make soak KILLS=200` as often as asked, every
tenth time with a JVM that dies too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .killer import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KILLS = int(
    os.environ.get("LAMINAR_KILLS", "10" if os.environ.get("LAMINAR_TESTS") == "all" else "1")
)
SEED = int(os.environ.get("LAMINAR_SEED", "1"))


def gateway_of(spark: SparkSession) -> dict[str, str]:
    """Return what another process needs to talk to this session's JVM."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    found = gateway.gateway_parameters
    return {
        "PYSPARK_GATEWAY_PORT": str(found.port),
        "PYSPARK_GATEWAY_SECRET": str(found.auth_token),
    }


def test_a_killed_process_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    tally = run(tmp_path, KILLS, SEED, gateway_of(spark))
    assert tally.kills == KILLS
    assert tally.changes > 0


@pytest.mark.skipif(KILLS < 10, reason="starts a JVM each time: make soak")
def test_neither_does_one_that_takes_its_jvm_along(tmp_path: Path) -> None:
    assert run(tmp_path, KILLS // 10, SEED, {}).changes > 0
