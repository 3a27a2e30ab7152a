"""Which of two ways leads to Spark: through its internals where they are known, or around them.

Both give the same answers. What only internals can do is to keep what Spark has found out about a
statement for the next epoch; what that saves is in docs/decisions.md.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, ClassVar, Protocol
from weakref import WeakKeyDictionary

from laminar.errors import SparkAccessUnavailable
from laminar.runtime.spark.fast import FastSpark, is_known, problem_with
from laminar.runtime.spark.java_names import remember_names
from laminar.runtime.spark.portable import PortableSpark

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from laminar.runtime.spark.statement_cache import StatementCache
    from laminar.store import SegmentStore

_LOG = logging.getLogger("laminar.spark")

FORCED = "LAMINAR_SPARK"
"""The environment variable with which tests choose the way; nobody else has a reason to."""


class SparkAccess(Protocol):
    """All that is asked of Spark and is not in PySpark's documented API."""

    name: ClassVar[str]

    @staticmethod
    def start(conf: SparkConf) -> None:
        """Start Java and its Spark in this process."""
        ...

    def lighten(self, spark: SparkSession) -> None:
        """Take from a Spark that this process has started what nothing here asks for."""
        ...

    def set_in(self, session: SparkSession) -> dict[str, str]:
        """Return the settings that somebody has set in a session, or on its way there."""
        ...

    def statement_cache(self, session: SparkSession, store: SegmentStore) -> StatementCache | None:
        """Return what keeps a session's statements from epoch to epoch; None keeps nothing."""
        ...


WAYS: dict[str, type[SparkAccess]] = {way.name: way for way in (FastSpark, PortableSpark)}


def way_to_start() -> type[SparkAccess]:
    """Return the way in which a Spark is started, which can be told by its version alone."""
    import pyspark

    fits = FastSpark if is_known(pyspark.__version__) else PortableSpark
    return WAYS.get(_forced() or "", fits)


def access_to(spark: SparkSession) -> SparkAccess:
    """Return the way to a session; it is chosen once for each, and the log says how.

    Raises:
        SparkAccessUnavailable: the environment asks for a way that there is not.
    """
    found = _CHOSEN.get(spark)
    if found is None:
        found = _CHOSEN[spark] = choose(spark)
    return found


def same_way(spark: SparkSession, beside: SparkSession) -> None:
    """Use a session that was made beside another in the same way, without trying it."""
    _CHOSEN[beside] = access_to(spark)


def choose(spark: SparkSession) -> SparkAccess:
    """Choose by what a session can do, unless the environment says which."""
    forced = _forced()
    if forced == PortableSpark.name:
        return _told(spark, PortableSpark(), f"{FORCED} says so")
    problem = problem_with(spark)
    if problem is None:
        remember_names(spark)
        return _told(spark, FastSpark(), "its internals are as they are known")
    if forced == FastSpark.name:
        raise SparkAccessUnavailable(FastSpark.name, problem)
    return _told(spark, PortableSpark(), problem)


def _told(spark: SparkSession, way: SparkAccess, why: str) -> SparkAccess:
    _LOG.info("Spark %s is used the %s way: %s", spark.version, way.name, why)
    return way


def _forced() -> str | None:
    asked = os.environ.get(FORCED)
    if asked and asked not in WAYS:
        raise SparkAccessUnavailable(asked, f"{FORCED} is one of {', '.join(WAYS)}")
    return asked or None


_CHOSEN: WeakKeyDictionary[SparkSession, SparkAccess] = WeakKeyDictionary()
