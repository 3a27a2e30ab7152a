"""Spark sessions: the embedded one, or the caller's."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize

from laminar.errors import JavaUnavailable, SparkUnavailable
from laminar.preflight import java_problem
from laminar.runtime.spark.access import access_to, same_way, way_to_start
from laminar.runtime.spark.error_translation import START_FAILS, first_sentence
from laminar.runtime.spark.fixed_settings import (
    TIME_ZONE,
    FixedSettings,
    in_effect,
    put,
)
from laminar.runtime.spark.java_process import has_gateway, move, note_start, refill
from laminar.runtime.spark.portable import PortableSpark

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# Epochs are small and many: what pays off for one long query costs more than it saves here.
_EPOCH_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",  # no listing jobs
    "spark.sql.autoBroadcastJoinThreshold": str(64 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.cbo.enabled": "false",
    # Of how many files one task may read what is marked for it (`plan_cache`).
    "spark.sql.optimizer.singleTaskExecution.maxNumFiles": "1000000",
    # Only this kind of relation can be told that the files of a folder are others (`plan_cache`).
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
    # Spark describes every plan to listeners, at length, whether anybody listens or not.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
    # Spark 4.3 has the type, and refuses to read it unless told.
    "spark.sql.timeType.enabled": "true",
}

_LOG = logging.getLogger("laminar.spark")

# What is stored was written under these, so that is how it is read.
_STORED = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
}

# An epoch plans a few small statements and runs short tasks, so on few cores the compiler threads
# of a young JVM take more time than the work itself. Methods have to be called more often before
# they are compiled: measured, that takes a third off the first epochs and a fifth off later ones.
# And less is put into each: planning is wide code that inlining makes longer, not faster, and
# compiling took a quarter of an epoch's time on two cores; it is half of that now.
# Loops keep their own thresholds, so that long tasks are compiled as soon as ever.
_JIT = (
    "-XX:Tier3InvocationThreshold=600 -XX:Tier3MinInvocationThreshold=300 "
    "-XX:Tier3CompileThreshold=4000 -XX:Tier4InvocationThreshold=80000 "
    "-XX:Tier4MinInvocationThreshold=40000 -XX:Tier4CompileThreshold=200000 "
    "-XX:FreqInlineSize=150 -XX:InlineSmallCode=1200 "
    "-XX:C1MaxInlineSize=18 -XX:C1MaxInlineLevel=4"
)

# What G1 does beside the work, so that pauses stay short, an epoch pays with a twelfth of its time,
# and nobody here waits for an answer within milliseconds.
_COLLECTOR = "-XX:+UseParallelGC"

SMALL_CHANGE = 200_000
"""Up to so many changed rows, one shuffle partition is faster than several."""

TINY = 10_000
"""Up to so many rows, interpreting expressions is faster than generating code for them."""

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

_LOGGING = Path(__file__).with_name("log4j2.properties")
"""Errors only: Spark's start would otherwise fill a screen before the user's first line."""

_VERBOSE = "-Dlaminar.log.level=info -Dlaminar.log.twice=error"

_EMBEDDED_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    # Every view brings generated classes of its own; the default of 100 makes Spark compile
    # them again and again.
    "spark.sql.codegen.cache.maxEntries": "10000",
    # Every hash table and sorter begins with a page; the default of 64 MB takes longer to clear
    # than a small epoch takes to compute.
    "spark.buffer.pageSize": "2m",
    "spark.ui.showConsoleProgress": "false",
    # Spark remembers finished queries, jobs and stages for a page that nobody serves here.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}


# Nobody else talks to an embedded Spark, and the machine's own name may not resolve.
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Every statement broadcasts a little to tasks of the same process.
    "spark.broadcast.compress": "false",
    "spark.broadcast.checksum": "false",
    # Its ports are open to every user of the machine. Spark makes the secret up itself, in Java:
    # given as a setting, it would stand in the list of processes.
    "spark.authenticate": "true",
}

# One that has run out of memory is not to be half alive.
_MEMORY = "-XX:+ExitOnOutOfMemoryError"


def start_spark(master: str | None, *, verbose: bool = False) -> SparkSession:
    """Start (or join) the session of this process; a missing Java is said in one sentence.

    Args:
        master: where it runs, `local[*]` by default.
        verbose: show what Spark logs, not only its errors.
    """
    problem = java_problem()
    if problem is not None:
        raise JavaUnavailable(problem)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession() if has_gateway() else None
    if running is not None:
        return running
    master = master or "local[*]"
    if master.startswith("local"):
        # Python functions run in this Python, not in whichever comes first on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        # The portable way hides nothing of what Java prints.
        way = PortableSpark if verbose else way_to_start()
        is_first = not has_gateway()
        way.start(_configured(master, verbose=verbose))
        spark = SparkSession.builder.getOrCreate()
        if is_first:
            note_start(spark, partial(start_spark, master, verbose=verbose))
        if master.startswith("local"):
            access_to(spark).lighten(spark)
        return spark
    except START_FAILS as error:
        raise SparkUnavailable(master, first_sentence(error)) from None


def _configured(master: str, *, verbose: bool) -> SparkConf:
    from pyspark import SparkConf

    local = _LOCAL_SETTINGS if master.startswith("local") else {}
    said = _VERBOSE if verbose else ""
    java = f"-Dlog4j2.configurationFile={_LOGGING} {_JIT} {_COLLECTOR} {_MEMORY} {said}"
    conf = SparkConf().setMaster(master).setAppName("laminar")
    conf.set("spark.driver.extraJavaOptions", java.strip())
    return conf.setAll([*_EMBEDDED_SETTINGS.items(), *local.items()])


def quiet() -> None:
    """Keep PySpark from logging every refused query with its Java stack: we raise it instead."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_of_py4j)  # of a Java that is gone: we raise that, too


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway" or record.msg != "Exception while sending command."


def base_session(spark: SparkSession, stored: Mapping[str, str]) -> SparkSession:
    """Return a session of a database's own, from which it makes all the others (`own_session`).

    Args:
        spark: the caller's; it keeps its settings.
        stored: the settings that are part of the database; none if it is a new one, which takes
            those of the caller's session.

    Raises:
        UnsupportedSparkSetting: a database cannot be created under the caller's settings.
        UnusableSparkSetting: this Spark refuses a setting of the database.
    """
    quiet()
    session = _beside(spark)
    unchanged = _unchanged(spark, session)
    said = in_effect(spark, access_to(spark).set_in(spark), unchanged)
    fixed = FixedSettings(stored) if stored else FixedSettings.chosen(said)
    if differing := fixed.differing(said):
        _LOG.warning("the database keeps its own settings of Spark: %s", "; ".join(differing))
    _BASES[session] = _Base(fixed, unchanged)
    return session


def fixed_settings(base: SparkSession) -> FixedSettings:
    """Return the settings that are part of the database to which a base session belongs."""
    return _BASES[base].fixed


def use_settings(base: SparkSession, stored: Mapping[str, str]) -> None:
    """Let all sessions of a database have the settings that were found to be part of it."""
    found = _BASES[base]
    if stored and stored != found.fixed.values:
        before = dict.fromkeys(found.changes)
        found.fixed = FixedSettings(stored)
        back = {name: found.unchanged.get(name) for name in before}
        for session in list(found.made):
            put(session, {**back, **found.changes})


def own_session(spark: SparkSession, shuffle_partitions: int) -> SparkSession:
    """Return a session beside the given one: own settings and names, same cluster and cache."""
    quiet()
    session = _beside(spark)
    _settle(session, spark, shuffle_partitions)
    return session


def _settle(session: SparkSession, spark: SparkSession, shuffle_partitions: int) -> None:
    """Let a session answer as the one it was made beside, and suit epochs."""
    base = _BASES.get(spark)
    if base is None:
        put(session, {TIME_ZONE: str(spark.conf.get(TIME_ZONE))})
    else:
        base.made[session] = shuffle_partitions
        put(session, base.changes)
    session.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions))
    for name, value in {**_STORED, **_EPOCH_SETTINGS}.items():
        session.conf.set(name, value)


def renew(base: SparkSession, spark: SparkSession) -> None:
    """Move all sessions of a database to another Spark, as empty as they were at first.

    Args:
        base: the one from which it makes all the others.
        spark: a session of the other Spark.
    """
    found = _BASES[base]
    access_to(spark)  # looks Java's names up anew
    move(base, spark)
    found.unchanged = _unchanged(spark, base)
    made = dict(found.made)
    for session, shuffle_partitions in made.items():
        move(session, spark)
        _SUITED.pop(session, None)
        _settle(session, base, shuffle_partitions)
    for session in made:
        refill(session)


def _unchanged(spark: SparkSession, made: SparkSession) -> dict[str, str]:
    """Return what is in effect in a session that was made beside another."""
    if not hasattr(spark, "newSession"):
        # A clone: it follows what is set in the other.
        return in_effect(made, access_to(spark).set_in(made))
    found = _UNCHANGED.get(spark)
    if found is None:
        found = _UNCHANGED[spark] = in_effect(made, access_to(spark).set_in(made))
    return found


def _beside(spark: SparkSession) -> SparkSession:
    made = _made_beside(spark)
    same_way(spark, made)
    return made


def _made_beside(spark: SparkSession) -> SparkSession:
    # Over Spark Connect, a session of Spark 4.1 or 4.2 can only be cloned.
    if hasattr(spark, "newSession"):
        return spark.newSession()
    spark.conf.get("spark.sql.session.timeZone")  # a server clones what it has heard of
    made: SparkSession = getattr(spark, "cloneSession")()  # noqa: B009 - only there
    # A process that ends with a clone's channel open waits for it for ever; this closes it before.
    finalize(made, made.client.close)
    return made


def suit(session: SparkSession, *, changed: int, held: int) -> None:
    """Set a session up for statements over a change of so many rows, and so many held before."""
    wanted = {
        "spark.sql.shuffle.partitions": "1" if changed <= SMALL_CHANGE else str(partitions()),
        **(_INTERPRETED if changed + held <= TINY else _GENERATED),
    }
    set_before = _SUITED.setdefault(session, {})
    for name, value in wanted.items():
        if set_before.get(name) != value:
            session.conf.set(name, value)
    _SUITED[session] = wanted


def partitions() -> int:
    """Into how many parts large statements shuffle."""
    return max(2, min(16, os.cpu_count() or 2))


@dataclass(slots=True)
class _Base:
    """What is known of a base session: the sessions made beside it answer alike."""

    fixed: FixedSettings
    unchanged: Mapping[str, str]
    """What is in effect in a session that was just made."""
    made: WeakKeyDictionary[SparkSession, int] = field(default_factory=WeakKeyDictionary)
    """Session -> into how many parts it shuffles at first."""

    @property
    def changes(self) -> dict[str, str | None]:
        """What has to be changed in a session that was just made."""
        return self.fixed.changes(self.unchanged)


_BASES: WeakKeyDictionary[SparkSession, _Base] = WeakKeyDictionary()
"""Base session of a database -> what is known of it."""

_UNCHANGED: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()
"""Session of a caller's -> what is in effect in one made beside it; always the same."""

_SUITED: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()
"""What was last set where; asking Spark would cost more than it saves."""
