from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[laminar.Database]:
    """An empty database on the shared session."""
    with laminar.connect(tmp_path / "state", spark=spark) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[laminar.Database]:
    """A database for all tests of a module that leave it as it was."""
    with laminar.connect(tmp_path_factory.mktemp("shared"), spark=spark) as opened:
        opened.execute(
            "CREATE TABLE t (id BIGINT, name STRING);"
            "CREATE MATERIALIZED VIEW s AS SELECT name, COUNT(*) AS n FROM t GROUP BY name"
        )
        yield opened
