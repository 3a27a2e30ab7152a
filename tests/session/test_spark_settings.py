"""What statements answer is decided by settings of Spark, and those are part of the database."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.model.state import EngineState
from laminar.store import ManifestStore
from laminar.testing import ManualClock, Oracle
from laminar.testing.live import LiveRows

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


@pytest.mark.long
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


@pytest.mark.long
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


MEANS_OTHERWISE = {
    ("legacy.ctePrecedencePolicy", "LEGACY"): "WITH q AS (SELECT MAX(a) AS n FROM t)"
    " SELECT (WITH q AS (SELECT 2 AS n) SELECT n FROM q) AS n",
    ("groupByOrdinal", "false"): "SELECT COUNT(*) AS n FROM t GROUP BY 1",
    ("join.asofJoin.enabled", "true"): "SELECT x.a, y.b FROM t AS x LEFT ASOF JOIN t AS y"
    " MATCH_CONDITION (x.a > y.b)",
    ("legacy.setopsPrecedence.enabled", "true"): "SELECT a FROM t UNION SELECT 7"
    " INTERSECT SELECT b FROM t",
}
"""Setting -> a query that has another meaning under it."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("setting", MEANS_OTHERWISE)
def test_a_query_means_what_it_means_under_the_settings(
    setting: tuple[str, str], spark: SparkSession
) -> None:
    name, value = setting
    if "asof" in name and spark.version < "4.3":
        pytest.skip("this Spark has no ASOF JOIN")
    asked = session(spark, {f"spark.sql.{name}": value})
    asked.sql("SELECT * FROM VALUES (1, 7), (3, 1) AS t(a, b)").createOrReplaceTempView("t")
    with laminar.connect(spark=session(spark, {f"spark.sql.{name}": value})) as db:
        db.execute("CREATE TABLE t (a INT, b INT)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {MEANS_OTHERWISE[setting]}")
        db.insert("t", [(1, 7), (3, 1)])
        db.step()
        truth = asked.sql(MEANS_OTHERWISE[setting]).collect()
        assert said(db.sql("SELECT * FROM v").rows()) == said(truth)
        assert said(db.sql(MEANS_OTHERWISE[setting]).rows()) == said(truth)
        [row] = db.sql("SELECT * FROM laminar_system.materialized_views").dicts()
        assert "SPARK_SETTING" in str(row)


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


ZONES = (
    "America/New_York",
    "Europe/Amsterdam",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "UTC",
)
TIMES = [
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(1582, 10, 10),
    datetime(1883, 11, 18, 12, 1),
    datetime(1936, 6, 1, 0, 0, 13),
    datetime(1969, 12, 31, 23, 59, 59, 1),
    datetime(2011, 12, 30, 12),
    # Skipped, or twice there, in one zone or another.
    datetime(2026, 3, 8, 2, 30),
    datetime(2026, 3, 29, 2, 30),
    datetime(2026, 11, 1, 1, 30),
    datetime(2026, 11, 1, 5, 30),
    datetime(2026, 11, 1, 6, 30),
    datetime(2026, 10, 4, 2, 15),
]
ALL = (
    "k INT, ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, s STRUCT<a: TIMESTAMP, `b c`: TIMESTAMP_NTZ>,"
    " l ARRAY<TIMESTAMP>, m MAP<TIMESTAMP, TIMESTAMP_NTZ>, i INTERVAL DAY TO SECOND"
)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process be in another zone than the database."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "zone", [*ZONES[:1], *(pytest.param(each, marks=pytest.mark.long) for each in ZONES[1:])]
)
def test_times_come_back_as_they_were_given_and_can_be_deleted(
    spark: SparkSession, zone: str
) -> None:
    rows = [
        (k, t, t, t.date(), (t, t), [t, None], {t: t}, timedelta(days=k, hours=-3))
        for k, t in enumerate(TIMES)
    ]
    short = f"SELECT k, ts, n, d FROM t WHERE k >= {len(rows) - 9}"  # pandas knows few centuries
    with laminar.connect(spark=session(spark, {ZONE: zone})) as db:
        db.execute(f"CREATE TABLE t ({ALL})")
        db.execute("CREATE TABLE u (k INT, ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE)")
        db.execute("CREATE MATERIALIZED VIEW c AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        db.execute("CREATE MATERIALIZED VIEW e AS SELECT n, COUNT(*) AS c FROM u GROUP BY n")
        db.insert("t", rows)
        db.step()
        found = db.sql("SELECT * FROM t ORDER BY k").rows()
        assert [(*r[:4], tuple(r[4]), *r[5:]) for r in found] == rows
        for form in (list, laminar.Result.arrow, laminar.Result.pandas, laminar.Result.spark):
            db.execute(f"INSERT INTO u {short}")
            db.step()
            assert db.delete("u", form(db.sql("SELECT * FROM u"))) == 9
            db.step()
            assert db.sql("SELECT * FROM e").rows() == []
        db.delete("t", found)
        db.insert("t", rows[:1])
        db.step()
        assert db.sql("SELECT * FROM c").rows() == [(0, 1)]


WEEK = "ts > now() - INTERVAL '7' DAY AND n < now() - INTERVAL '1' DAY - INTERVAL '30' MINUTE"


@pytest.mark.long
@pytest.mark.parametrize(
    ("zone", "turn"),
    [
        ("America/New_York", datetime(2026, 11, 1, 6)),
        pytest.param("Europe/Amsterdam", datetime(2026, 3, 29, 1), marks=pytest.mark.long),
        pytest.param("Australia/Lord_Howe", datetime(2026, 4, 4, 15), marks=pytest.mark.long),
        pytest.param("Pacific/Apia", datetime(2011, 12, 30, 10), marks=pytest.mark.long),
    ],
)
def test_rows_age_by_days_of_the_zone(spark: SparkSession, zone: str, turn: datetime) -> None:
    clock = ManualClock(turn - timedelta(days=1))
    times = [turn + timedelta(minutes=30 * at) for at in range(-8 * 48, -6 * 48)]
    times += [turn + timedelta(minutes=30 * at) for at in range(-3 * 48, 48)]
    rows = [(each, turn + timedelta(minutes=45 * at)) for at, each in enumerate(times, -300)]
    asked = session(spark, {ZONE: zone})
    schema = "ts TIMESTAMP, n TIMESTAMP"
    utc = [tuple(each.replace(tzinfo=UTC) for each in row) for row in rows]
    asked.createDataFrame(utc, schema).createOrReplaceTempView("t")
    settings = laminar.TimeSettings(clock=clock)
    with laminar.connect(spark=asked, settings=settings) as db:
        db.execute(f"CREATE TABLE t ({schema})")
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT ts, n FROM t WHERE {WEEK}")
        db.insert("t", rows)
        for hours in (0, 22, 1.5, 1, 0.75, 0.5, 24, 5 * 24, 0.5, 1):
            clock.advance(3600 * hours)
            db.step()
            now = f"TIMESTAMP_MILLIS({clock()})"
            truth = asked.sql(
                f"SELECT unix_micros(ts), unix_micros(n) FROM t WHERE {WEEK}".replace("now()", now)
            )
            found = db.sql("SELECT unix_micros(ts), unix_micros(n) FROM v").rows()
            assert sorted(found) == sorted(map(tuple, truth.collect())), hours


TIMED = {
    "days": "SELECT date_trunc('DAY', ts) d, HOUR(ts) h, COUNT(*) c FROM a GROUP BY 1, 2",
    "near": "SELECT a.k, a.ts, b.ts AS t2 FROM a JOIN b"
    " ON a.ts BETWEEN b.ts - INTERVAL '1' DAY AND b.ts + INTERVAL '2' HOUR",
    "far": "SELECT a.k, a.ts, b.ts AS t2 FROM a JOIN b"
    " ON a.ts BETWEEN b.ts - INTERVAL '36' HOUR AND b.ts - INTERVAL '24' HOUR",
    "session": "SELECT k, session_window(ts, '24 hours') w, COUNT(*) c FROM a"
    " GROUP BY k, session_window(ts, '24 hours')",
    "dayly": "SELECT k, session_window(ts, '1 day') w, COUNT(*) c FROM a"
    " GROUP BY k, session_window(ts, '1 day')",
    "plain": "SELECT ts + INTERVAL '1' DAY x, CAST(n AS TIMESTAMP) q, CAST(ts AS DATE) d FROM a",
    "hops": "SELECT HOP_START(n, INTERVAL '6' HOUR, INTERVAL '1' DAY) s, COUNT(*) c FROM a"
    " GROUP BY HOP(n, INTERVAL '6' HOUR, INTERVAL '1' DAY)",
    "mixed": "SELECT a.k, COUNT(*) c FROM a JOIN b ON a.n = b.ts GROUP BY a.k",
}
TURNS = (datetime(2026, 3, 8, 7), datetime(2026, 11, 1, 6), datetime(2011, 12, 30, 10))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_views_go_by_the_clock_of_the_database(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    settings = {ZONE: chance.choice(ZONES[:5])}
    turn = chance.choice(TURNS)

    def some() -> tuple[int, datetime, datetime]:
        first, second = (turn + timedelta(minutes=chance.randint(-3600, 3600)) for _ in "ab")
        return chance.randint(0, 2), first, second

    limits = laminar.TimeSettings(clock=ManualClock(datetime(2027, 1, 1)))
    with laminar.connect(spark=session(spark, settings), settings=limits) as db:
        oracle = Oracle(db, spark, settings=settings)
        for name in "ab":
            columns = "k INT, ts TIMESTAMP, n TIMESTAMP_NTZ, WATERMARK FOR ts AS ts"
            db.execute(f"CREATE SOURCE {name} ({columns})")
            oracle.tables[name] = LiveRows()
        for name, sql in TIMED.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for _ in range(3):
            for name in "ab":
                oracle.insert(name, [some() for _ in range(6)])
            oracle.delete("a", oracle.tables["a"].rows[:2])
            oracle.step()
