"""The specification's blocks about looking at a DAG, with the answers they give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.connectors import DatagenSource, SourceSpec
from laminar.connectors.datagen import datagen_source
from laminar.connectors.source_registry import _FACTORIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parents[1] / "sql" / "fixtures"


def block(name: str) -> str:
    """A block of the specification, word for word."""
    return (FIXTURES / f"{name}.sql").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[laminar.Database]:
    def kafka(spec: SourceSpec) -> DatagenSource:
        assert (spec.options["topic"], spec.options["format"]) == ("raw-trades", "json")
        return datagen_source(SourceSpec(spec.name, spec.schema, {"rows_total": "4"}))

    with laminar.connect(tmp_path_factory.mktemp("dag"), spark=spark) as opened:
        with pytest.raises(laminar.UnknownConnector, match="kafka"):
            opened.execute(block("trades_dag"))
        laminar.register_source("kafka", kafka)
        opened.execute(block("trades_dag"))
        yield opened
    del _FACTORIES.known["kafka"]


def lines(db: laminar.Database, statement: str) -> list[str]:
    return [line for (line,) in db.execute(statement).rows()]


def promised(text: str) -> list[tuple[Any, ...]]:
    """Read the table of results that stands in the block's comments."""
    rows = [re.split(r"\s*\|\s*", line)[1:-1] for line in text.splitlines() if "|" in line]
    return [tuple(row) for row in rows if row[0].isdigit()]


def test_the_block_about_a_dag(db: laminar.Database) -> None:
    text = block("introspection")
    found = db.sql(
        "SELECT node_id, name, node_type, inputs, outputs, is_shared"
        " FROM laminar_system.dag_topology ORDER BY node_id"
    ).rows()
    shown = [
        (str(a), b, c, f"[{', '.join(d)}]", f"[{', '.join(e)}]", str(f).lower())
        for a, b, c, d, e, f in found
    ]
    assert shown == promised(text)
    assert db.sql("SELECT * FROM laminar_system.dag_topology").columns[:6] == [
        "node_id", "name", "node_type", "inputs", "outputs", "is_shared",
    ]  # fmt: skip
    assert lines(db, "SHOW DEPENDENCIES FOR vwap") == ["vwap -> normalized_trades -> raw_trades"]
    assert "-- vwap -> normalized_trades -> raw_trades" in text
    explained = lines(db, "EXPLAIN DAG")
    for line in re.findall(r"-- ((?:Execution|Shared|Channel).*)", text):
        assert line in explained
    assert "Strategy of vwap: incremental" in explained
    assert "Consistency groups: none" in explained


def test_the_block_about_a_cascade(db: laminar.Database) -> None:
    db.execute(
        "CREATE SOURCE trades (symbol STRING, price DOUBLE, quantity BIGINT, event_time TIMESTAMP,"
        " WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND)"
    )
    db.execute(block("ohlc_cascade"))
    rows = [(9.0, 1, 0.1), (7.0, 2, 0.2), (8.0, 3, 1.5), (5.0, 4, 61.0), (6.0, 5, 60.5)]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    db.insert("trades", [("S", p, q, start + timedelta(seconds=at)) for p, q, at in rows])
    db.drain()
    bars = "SELECT open, high, low, close, volume FROM {} ORDER BY bar_time"
    assert db.sql(bars.format("ohlc_1s")).rows() == [
        (9.0, 9.0, 7.0, 7.0, 3),
        (8.0, 8.0, 8.0, 8.0, 3),
        (6.0, 6.0, 6.0, 6.0, 5),
        (5.0, 5.0, 5.0, 5.0, 4),
    ]
    assert db.sql(bars.format("ohlc_1m")).rows() == [
        (9.0, 9.0, 7.0, 8.0, 6),
        (6.0, 6.0, 5.0, 5.0, 9),
    ]
    assert db.sql(bars.format("ohlc_1h")).rows() == [(9.0, 9.0, 5.0, 5.0, 15)]
    assert lines(db, "SHOW DEPENDENCIES FOR ohlc_1h") == ["ohlc_1h -> ohlc_1m -> ohlc_1s -> trades"]
    with pytest.raises(laminar.HasDependents):
        db.execute("DROP MATERIALIZED VIEW ohlc_1m")
    db.execute("DROP MATERIALIZED VIEW ohlc_1m CASCADE")
    left = [name for name, *_ in db.execute("SHOW MATERIALIZED VIEWS").rows()]
    assert [name for name in left if name.startswith("ohlc")] == ["ohlc_1s"]


@pytest.mark.long
def test_the_document_about_diamonds(db: laminar.Database) -> None:
    db.execute(
        "CREATE TABLE a (k INT, x INT);"
        "CREATE MATERIALIZED VIEW b AS SELECT k, SUM(x) AS x FROM a GROUP BY k;"
        "CREATE MATERIALIZED VIEW c AS SELECT k, COUNT(*) AS n FROM a GROUP BY k;"
        "CREATE MATERIALIZED VIEW d WITH (diamond_consistency = 'atomic') AS"
        " SELECT b.k, x / n AS mean FROM b JOIN c ON b.k = c.k"
    )
    groups = (
        "SELECT group_id, member, is_convergence, epoch, schedule_policy"
        " FROM laminar_system.diamond_groups ORDER BY member"
    )
    assert db.sql(groups).rows() == [
        (1, "b", False, 0, "fastest"),
        (1, "c", False, 0, "fastest"),
        (1, "d", True, 0, "fastest"),
    ]
    # The view in which the paths meet owns the policy.
    db.execute("ALTER MATERIALIZED VIEW b SET (diamond_schedule_policy = 'slowest')")
    assert {row[-1] for row in db.sql(groups).rows()} == {"fastest"}
    db.execute("ALTER MATERIALIZED VIEW d SET (diamond_schedule_policy = 'slowest')")
    assert {row[-1] for row in db.sql(groups).rows()} == {"slowest"}
    assert lines(db, "SHOW DEPENDENCIES FOR d") == ["d", "├─ b", "│  └─ a", "└─ c", "   └─ a"]
    assert "Consistency groups: 1 [b, c, d] meets in d: atomic, slowest" in lines(db, "EXPLAIN DAG")
    db.execute("INSERT INTO a VALUES (1, 4), (1, 6)")
    db.step()
    joined = db.sql(
        "SELECT d.mean, g.epoch, v.rows FROM d"
        " JOIN laminar_system.diamond_groups g ON g.member = 'd'"
        " JOIN laminar_system.materialized_views v ON v.name = g.member"
    ).rows()
    assert joined == [(5.0, 1, 1)]  # the group has committed once
    db.execute("PAUSE MATERIALIZED VIEW b; INSERT INTO a VALUES (2, 2)")
    db.step()
    behind = (
        "SELECT name, state, staleness FROM laminar_system.materialized_views"
        " WHERE name IN ('b', 'c', 'd') ORDER BY name"
    )
    assert db.sql(behind).rows() == [("b", "paused", 1), ("c", "held", 1), ("d", "held", 1)]
    explained = lines(db, "EXPLAIN MATERIALIZED VIEW d")
    assert "group: 1 [b, c, d] meets in d: atomic, slowest, epoch 1" in explained
    assert any(line.startswith("state: held, at epoch") for line in explained)
    db.execute("RESUME MATERIALIZED VIEW b")
    assert {row[-1] for row in db.sql(behind).rows()} == {0}


def test_settings_last(tmp_path: Path, spark: SparkSession) -> None:
    kept = "SELECT epoch FROM laminar_system.epochs ORDER BY epoch"
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("SET laminar.retained_epochs = 2; CREATE TABLE t (id INT)")
        for number in range(3):
            db.insert("t", [(number,)])
            db.step()
        assert db.sql(kept).rows() == [(2,), (3,)]
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
        with pytest.raises(laminar.FanOutLimitExceeded):
            db.execute(
                "SET laminar.max_fan_out = 1; CREATE MATERIALIZED VIEW w AS SELECT id FROM t"
            )
        assert [name for name, *_ in db.execute("SHOW MATERIALIZED VIEWS").rows()] == ["v"]
    with laminar.connect(tmp_path, spark=spark) as db:
        assert db.engine.defined.settings.given == {"retained_epochs": "2", "max_fan_out": "1"}
        with pytest.raises(laminar.FanOutLimitExceeded):
            db.execute("CREATE MATERIALIZED VIEW w AS SELECT id FROM t")
        db.execute("RESET laminar.max_fan_out; CREATE MATERIALIZED VIEW w AS SELECT id FROM t")
        history = db.sql("SELECT epoch, view FROM laminar_system.refresh_history").rows()
        assert history == []  # no epoch has run since there are views
        assert db.sql("SELECT * FROM w AS OF EPOCH 3 ORDER BY id").rows() == [(0,), (1,), (2,)]
