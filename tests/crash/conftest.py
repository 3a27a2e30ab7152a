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
