"""The Spark that test files run on, with the tables that all of them may read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.runtime.spark.access import access_to
from laminar.runtime.spark.session import quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.leafNodeDefaultParallelism": "2",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.timeType.enabled": "true",  # as in Spark's own suite
}

_NUMBERS = (
    "unique1 unique2 two four ten twenty hundred thousand twothousand fivethous tenthous odd even"
)
_WIDE = ", ".join(f"{name} INT" for name in _NUMBERS.split())
_CSV = {
    "aggtest": ("agg", "a INT, b FLOAT"),
    "onek": ("onek", f"{_WIDE}, stringu1 STRING, stringu2 STRING, string4 STRING"),
    "tenk1": ("tenk", f"{_WIDE}, stringu1 STRING, stringu2 STRING, string4 STRING"),
}
_MADE = {
    "testdata": "SELECT CAST(id AS INT) AS key, CAST(id AS STRING) AS value FROM range(1, 101)",
    "arraydata": "SELECT * FROM VALUES (array(1, 2, 3), array(array(1, 2, 3))),"
    " (array(2, 3, 4), array(array(2, 3, 4))) AS d(arraycol, nestedarraycol)",
    "mapdata": "SELECT map_from_arrays(sequence(1, 6 - id), transform(sequence(1, 6 - id),"
    " k -> concat(substr('abcde', k, 1), id))) AS mapcol"
    " FROM (SELECT CAST(id AS INT) AS id FROM range(1, 6))",
}


def started(inputs: Path) -> SparkSession:
    """Start Spark and make the tables that Spark's own suite makes before it runs its files."""
    from pyspark.sql import SparkSession

    scratch = tempfile.mkdtemp(dir="/dev/shm")
    builder = SparkSession.builder.master("local[2]").appName("spark-sql-tests")
    for name, value in _OPTIONS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
    spark = builder.config("spark.local.dir", scratch).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    access_to(spark).lighten(spark)
    quiet()
    _make_tables(spark, inputs.parents[1] / "test-data" / "postgresql")
    return spark


def _make_tables(spark: SparkSession, data: Path) -> None:
    for name, query in _MADE.items():
        spark.sql(query).coalesce(1).write.saveAsTable(name)
    for name, (file, ddl) in _CSV.items():
        path = data / f"{file}.data"
        if path.exists():
            rows = spark.read.csv(str(path), schema=ddl, sep="\t")
            rows.limit(10000).coalesce(1).write.saveAsTable(name)
