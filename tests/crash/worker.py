"""The process that is killed: opens the database, checks it, then changes it until it dies.

Run as `python -m tests.crash.worker FOLDER`. It talks to the JVM whose gateway the environment
names, which outlives it; without one it starts its own, which dies with it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import laminar

from .workload import acknowledge, apply, define, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shared_session() -> SparkSession | None:
    """Return the session of a JVM that is running already."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    scala = jvm.org.apache.spark.SparkContext.getOrCreate()
    java = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(scala)
    conf = SparkConf(_jvm=jvm, _jconf=scala.conf())
    return SparkSession(SparkContext(gateway=gateway, jsc=java, conf=conf))


def main(folder: Path) -> None:
    acks, out = folder / "acks", folder / "out"
    with laminar.connect(folder / "state", spark=shared_session()) as db:
        if not db.engine.defined.catalog.exists("net"):
            # Killed while defining: what is there is dropped, and everything defined anew.
            db.execute("DROP TABLE IF EXISTS trades CASCADE; DROP TABLE IF EXISTS quotes CASCADE")
            define(db, out)
        elif not db.engine.outputs.sinks.books.sinks():
            db.execute(f"CREATE SINK k FROM net WITH (connector = 'files', path = '{out}')")
        count = verify(db, acks, out)
        sys.stdout.write(f"ready {count}\n")
        sys.stdout.flush()
        while True:
            apply(db, count)
            acknowledge(acks)
            count += 1
            if count % 2:
                db.step()
            if count % 9 == 0:
                db.checkpoint()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
