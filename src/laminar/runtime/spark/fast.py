"""Spark through its internals, in versions of which they are known."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from laminar.errors import SparkUnavailable
from laminar.runtime.spark.error_translation import first_sentence
from laminar.runtime.spark.hadoop import lighten
from laminar.runtime.spark.java_stderr import JavaErrors
from laminar.runtime.spark.plan_cache import FolderRelation, Planner
from laminar.runtime.spark.statement_cache import StatementCache

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from laminar.store import SegmentStore

_BETWEEN = "\x00"
"""Stands in no setting."""

KNOWN = ("4.3",)
"""Versions whose internals all tests were run through; others are used the portable way."""


class FastSpark:
    """Statements are analysed and planned once, see `access.SparkAccess`."""

    name: ClassVar[str] = "fast"

    @staticmethod
    def start(conf: SparkConf) -> None:
        """Start Java and its Spark, without what Java says on every start."""
        from pyspark import SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway

        if SparkContext._gateway is not None:  # noqa: SLF001
            SparkContext.getOrCreate(conf)
            return
        errors = JavaErrors()
        try:
            gateway = launch_gateway(conf, {"stderr": errors.theirs})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError:
            raise SparkUnavailable(str(conf.get("spark.master")), errors.last_words()) from None
        errors.forward()
        SparkContext(conf=conf, gateway=gateway)

    def lighten(self, spark: SparkSession) -> None:
        """Forget Hadoop's defaults for the daemons of a cluster."""
        lighten(spark)

    def set_in(self, session: SparkSession) -> dict[str, str]:
        """Return the settings that are set in a session, in one call."""
        settings = session.conf._jconf.getAll()  # noqa: SLF001
        told = str(settings.mkString(_BETWEEN))
        return dict(each.split(" -> ", 1) for each in told.split(_BETWEEN) if " -> " in each)

    def statement_cache(self, session: SparkSession, store: SegmentStore) -> StatementCache:
        """Return what keeps a session's statements."""
        return StatementCache(session, store)


def is_known(version: str) -> bool:
    """Say whether the internals of a version of Spark have been tried."""
    return ".".join(version.split(".")[:2]) in KNOWN


def problem_with(spark: SparkSession) -> str | None:
    """Say why a session's internals cannot be used; None if they can."""
    if not hasattr(spark, "_jsparkSession"):
        return "it is reached over Spark Connect"
    if not is_known(spark.version):
        return "its internals have not been tried"
    try:
        return _try(spark.newSession())
    except Exception as error:
        # Whatever it is: internals of another shape fail in ways that nobody can list.
        return f"its internals are not as they are known: {first_sentence(error)}"


def _try(session: SparkSession) -> str | None:
    """Prepare a statement over an empty folder; all of it but running, which would take longer."""
    session.conf.set("spark.sql.sources.useV1SourceList", "parquet")
    planner = Planner(session)
    with TemporaryDirectory(prefix="laminar-") as folder:
        frame = session.read.schema("a INT").parquet(f"file://{folder}")
        listed = FolderRelation(frame).list_again()
        plan = planner.plan(planner.by_one_task(frame))
        found = None if plan is None else planner.copy(plan).columns
    if listed or found != ["a"]:
        return "a statement that was prepared as a trial is not what it must be"
    return None
