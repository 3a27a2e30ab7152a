"""What statements answer is decided by settings of Spark, and those are part of the database."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.model.state import EngineState
from laminar.store import ManifestStore
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
HERE = {ZONE: "America/New_York", ANSI: "false", "spark.sql.mapKeyDedupPolicy": "LAST_WIN"}
ELSEWHERE = {ZONE: "Asia/Kolkata", ANSI: "true", "spark.sql.mapKeyDedupPolicy": "EXCEPTION"}

VIEWS = {
    "days": "SELECT CAST(ts AS DATE) AS d, HOUR(ts) AS h, COUNT(*) AS n FROM t GROUP BY 1, 2",
    "numbers": "SELECT CAST(s AS INT) AS i, a / b AS q, CAST(ts AS STRING) AS w FROM t",
    "maps": "SELECT map_concat(map(s, a), map(s, b)) AS m FROM t",
    "texts": "SELECT * FROM t WHERE s = 1 OR CAST(ts AS STRING) < '2026-01-01'",
}
COLUMNS = "s STRING, a INT, b INT, ts TIMESTAMP"
ROWS = [("1", 1, 0, "2026-01-01T02:00:00Z"), ("x", 2, 3, "2026-07-01T02:00:00Z")]


def session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    made = spark.newSession()
    for name, value in settings.items():
        made.conf.set(name, value)
    return made


def answers(spark: SparkSession, settings: Mapping[str, str], rows: list[Any]) -> dict[str, Any]:
    """What Spark itself answers under some settings."""
    asked = session(spark, settings)
    literals = ", ".join(f"('{s}', {a}, {b}, TIMESTAMP '{ts}')" for s, a, b, ts in rows)
    asked.sql(f"SELECT * FROM VALUES {literals} AS t(s, a, b, ts)").createOrReplaceTempView("t")
    return {name: asked.sql(f"SELECT * FROM ({sql})").collect() for name, sql in VIEWS.items()}


def said(rows: list[Any]) -> list[str]:
    return sorted(map(repr, map(tuple, rows)))


def agree(db: laminar.Database, spark: SparkSession, rows: list[Any]) -> None:
    truth = answers(spark, HERE, rows)
    for name, sql in VIEWS.items():
        assert said(db.sql(f"SELECT * FROM {name}").rows()) == said(truth[name]), name
        assert said(db.sql(sql).rows()) == said(truth[name]), name


@contextmanager
def older_format() -> Iterator[None]:
    """Write manifests as they were before they told of Spark's settings."""
    had = EngineState.to_json
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineState, "to_json", lambda self: {**had(self), "spark": {}})
        yield


def test_a_view_means_the_same_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with laminar.connect(tmp_path, spark=session(spark, HERE)) as db:
        db.execute(f"CREATE TABLE t ({COLUMNS})")
        for name, sql in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        db.insert("t", ROWS[:1])
        db.step()
        agree(db, spark, ROWS[:1])
    other = session(spark, ELSEWHERE)
    with caplog.at_level(logging.WARNING, "laminar.spark"):
        db = laminar.connect(tmp_path, spark=other)
    [line] = [each.getMessage() for each in caplog.records]
    assert f"{ZONE}: America/New_York instead of Asia/Kolkata" in line
    with db:
        db.insert("t", ROWS[1:])
        db.step()
        agree(db, spark, ROWS)
        with laminar.connect(tmp_path, spark=other, read_only=True) as reader:
            agree(reader, spark, ROWS)
        db.delete("t", ROWS[:1])
        db.execute("UPDATE t SET ts = '2026-07-01 23:30:00' WHERE s = 'x'")
        db.step()
        agree(db, spark, [("x", 2, 3, "2026-07-01T23:30:00-04:00")])
        found = db.sql("SELECT name, value FROM laminar_system.settings").rows()
        assert set(HERE.items()) <= set(found)
    assert {name: other.conf.get(name) for name in ELSEWHERE} == ELSEWHERE


def test_what_is_restored_is_under_the_same_settings(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with older_format(), laminar.connect(folder, spark=session(spark, HERE)) as db:
        db.execute(f"CREATE TABLE t ({COLUMNS})")
        for name, sql in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        db.insert("t", ROWS[:1])
        db.step()
        number = db.checkpoint()
    assert ManifestStore(folder).latest().state.spark == {}  # type: ignore[union-attr]
    reader = laminar.connect(folder, spark=session(spark, ELSEWHERE), read_only=True)
    with laminar.connect(folder, spark=session(spark, HERE)) as db:
        assert ManifestStore(folder).latest().state.spark[ANSI] == "false"  # type: ignore[union-attr]
        agree(reader, spark, ROWS[:1])
        db.insert("t", ROWS[1:])
        db.step()
        db.restore(number)
        assert ManifestStore(folder).latest().state.spark[ANSI] == "false"  # type: ignore[union-attr]
    reader.close()
    with laminar.connect(folder, spark=session(spark, ELSEWHERE)) as db:
        agree(db, spark, ROWS[:1])
        db.insert("t", ROWS[1:])
        db.step()
        agree(db, spark, ROWS)


def test_settings_that_no_view_could_have_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    other = session(spark, {"spark.sql.parser.escapedStringLiterals": "true"})
    with pytest.raises(laminar.UnsupportedSparkSetting, match="escapedStringLiterals"):
        laminar.connect(tmp_path, spark=other)
    laminar.connect(tmp_path, spark=spark).close()


def test_a_setting_that_this_spark_refuses_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE TABLE t (a INT)")
        db.execute("SET laminar.retained_epochs = 3")
    with pytest.MonkeyPatch.context() as patch:
        had = EngineState.from_json
        strange = {ZONE: "Mars/Olympus"}

        def read(data: Mapping[str, Any]) -> EngineState:
            return had(json.loads(json.dumps({**data, "spark": strange})))

        patch.setattr(EngineState, "from_json", read)
        with pytest.raises(laminar.UnusableSparkSetting, match="Mars/Olympus"):
            laminar.connect(tmp_path, spark=spark)


@pytest.mark.parametrize("statement", ["SET spark.sql.ansi.enabled = false", "SET TIME ZONE 'UTC'"])
def test_a_setting_that_is_part_of_the_database_stays(statement: str) -> None:
    from laminar.sql import parse_script

    with pytest.raises(laminar.FixedSparkSetting):
        list(parse_script(statement))


def test_the_oracle_can_have_settings(spark: SparkSession) -> None:
    with laminar.connect(spark=session(spark, HERE)) as db:
        oracle = Oracle(db, spark, settings=HERE)
        oracle.table("t", COLUMNS)
        for name, sql in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        from datetime import datetime

        oracle.insert("t", [("1", 1, 0, datetime(2026, 3, 8, 7, 30)), ("x", 1, 2, None)])
        oracle.step()
