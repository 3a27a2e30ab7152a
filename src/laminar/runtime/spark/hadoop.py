"""Hadoop's configuration, as small as an embedded Spark can do with.

Every scan packs all of it, sends it to its tasks and unpacks it there. Of some 1,100 entries nearly
all are defaults for a cluster's daemons (YARN, MapReduce, RPC), which nothing here asks for. A
small statement takes a quarter less time without them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = "-default.xml"
"""How the files are called in which Hadoop keeps its own defaults."""

_KEPT = ("fs.", "hadoop.security.", "io.")
"""What a file system may look for, and find only there."""


def lighten(spark: SparkSession) -> None:
    """Forget the defaults of a Spark that this process has just started for itself."""
    context = spark.sparkContext
    # Made once, when first asked for; afterwards Hadoop would read all defaults again.
    spark._jsparkSession.sharedState()  # noqa: SLF001
    java = context._jvm.java.io.StringWriter()  # type: ignore[union-attr]  # noqa: SLF001
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001
    # All of it in one call: asking for one entry after the other takes longer than it saves.
    hadoop.dumpConfiguration(hadoop, None, java)
    entries = wanted(json.loads(java.toString())["properties"])
    hadoop.clear()
    for name, value in entries.items():
        hadoop.set(name, value)


def wanted(entries: list[dict[str, str]]) -> dict[str, str]:
    """Choose the entries that stay: what somebody has set, and what a file system may need."""
    return {
        each["key"]: each["value"]
        for each in entries
        if each["key"].startswith(_KEPT) or not each.get("resource", "").endswith(_DEFAULTS)
    }
