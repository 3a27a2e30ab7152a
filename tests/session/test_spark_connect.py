"""A session of Spark Connect has no internals to reach; all else is as usual."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from laminar.runtime.spark.access import FORCED

# In a process of its own: one process has either a classic session or one of Spark Connect.
SCRIPT = """
import logging
import laminar
from pyspark.sql import SparkSession

logging.basicConfig(format="%(message)s")
logging.getLogger("laminar.spark").setLevel(logging.INFO)
spark = SparkSession.builder.remote("local[2]").getOrCreate()
with laminar.connect(spark=spark) as db:
    db.execute("CREATE TABLE t (k INT, v INT, at TIMESTAMP)")
    db.execute("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS s FROM t GROUP BY k")
    db.execute("CREATE MATERIALIZED VIEW both AS SELECT t.v, s.s FROM t JOIN sums s ON t.k = s.k")
    for number in range(3):
        db.insert("t", [(number, 1, None), (0, 10, None)])
        db.step()
    db.execute("DELETE FROM t WHERE k = 2")
    db.step()
    print(sorted(db.sql("SELECT * FROM sums").rows()), sorted(db.sql("SELECT * FROM both").rows()))
    for query in ("SELECT nothing FROM t", "SELECT k FROM t WHERE at < '09:00'"):
        try:
            db.execute(f"CREATE MATERIALIZED VIEW refused AS {query}")
        except laminar.LaminarError as error:
            print(type(error).__name__)
"""


def test_a_database_over_spark_connect() -> None:
    pytest.importorskip("grpc_status", reason="Spark Connect is not installed")
    chosen = {name: value for name, value in os.environ.items() if name != FORCED}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=chosen, timeout=600
    )
    assert done.stdout.splitlines()[-3:] == [
        "[(0, 31), (1, 1)] [(1, 1), (1, 31), (10, 31), (10, 31), (10, 31)]",
        "UnknownColumn",
        "NonDeterministic",
    ], done.stderr
    assert "is used the portable way: it is reached over Spark Connect" in done.stderr
