"""A store and its statement cache in a session of their own, set up as epochs have it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar.runtime.spark.access import access_to
from laminar.runtime.spark.session import own_session
from laminar.runtime.spark.statement_cache import StatementCache
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> SegmentStore:
    return SegmentStore(tmp_path, own_session(spark, 2))


@pytest.fixture
def statement_cache(spark: SparkSession, store: SegmentStore) -> StatementCache:
    kept = access_to(spark).statement_cache(store._spark, store)
    if kept is None:
        pytest.skip("the portable way keeps no statements")
    return kept
