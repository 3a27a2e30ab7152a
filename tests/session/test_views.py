"""Views: filled over rows that are there, dropped, and refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def trades(db: laminar.Database) -> laminar.Database:
    db.execute("CREATE TABLE trades (symbol STRING, price DOUBLE, volume BIGINT)")
    db.insert("trades", [("A", 1.0, 10), ("A", 3.0, 10), ("B", 5.0, 1), ("B", 5.0, 1)])
    db.step()
    return db


@pytest.fixture(scope="module")
def empty(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[laminar.Database]:
    """A database without rows, for all tests that leave it as it was."""
    with laminar.connect(tmp_path_factory.mktemp("empty"), spark=spark) as db:
        db.execute("CREATE TABLE trades (symbol STRING, price DOUBLE, volume BIGINT)")
        yield db


def rows(db: laminar.Database, name: str) -> list[tuple[Any, ...]]:
    return sorted(db.sql(f"SELECT * FROM {name}").rows(), key=repr)


def views(db: laminar.Database) -> list[str]:
    return [name for name, *_ in db.execute("SHOW MATERIALIZED VIEWS").rows()]


def test_a_view_over_rows_is_there_at_once(trades: laminar.Database) -> None:
    trades.insert("trades", [("C", 1.0, 1)])  # pending: not part of the epoch it is filled from
    trades.execute(
        "CREATE MATERIALIZED VIEW total AS"
        " SELECT symbol, SUM(volume) AS v FROM trades GROUP BY symbol;"
        "CREATE MATERIALIZED VIEW large AS SELECT * FROM total WHERE v > 5;"
        "CREATE MATERIALIZED VIEW best AS SELECT MAX(v) AS v FROM large"
    )
    assert trades.sql("SELECT 1").epoch == 1
    assert rows(trades, "total") == [("A", 20), ("B", 2)]
    assert rows(trades, "large") == [("A", 20)]
    assert rows(trades, "best") == [(20,)]
    trades.execute("UPDATE trades SET volume = 100 WHERE symbol = 'B'")
    trades.step()
    assert rows(trades, "total") == [("A", 20), ("B", 200), ("C", 1)]
    assert rows(trades, "large") == [("A", 20), ("B", 200)]
    assert rows(trades, "best") == [(200,)]


def test_drop_refuses_while_others_depend(trades: laminar.Database) -> None:
    trades.execute(
        "CREATE MATERIALIZED VIEW a AS SELECT symbol, volume FROM trades;"
        "CREATE MATERIALIZED VIEW b AS SELECT SUM(volume) AS v FROM a;"
        "CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n FROM trades"
    )
    with pytest.raises(laminar.HasDependents, match='"b"'):
        trades.execute("DROP MATERIALIZED VIEW a")
    with pytest.raises(laminar.UnknownRelation):
        trades.execute("DROP TABLE a")
    with pytest.raises(laminar.UnknownRelation):
        trades.execute("DROP MATERIALIZED VIEW nope")
    trades.execute("DROP MATERIALIZED VIEW IF EXISTS nope")
    assert views(trades) == ["a", "b", "c"]
    trades.execute("DROP MATERIALIZED VIEW A CASCADE")
    assert views(trades) == ["c"]
    with pytest.raises(laminar.UnknownRelation):
        trades.sql("SELECT * FROM b")
    trades.execute("CREATE MATERIALIZED VIEW a AS SELECT MAX(price) AS p FROM trades")
    trades.insert("trades", [("Z", 9.0, 1)])
    trades.step()
    assert (rows(trades, "a"), rows(trades, "c")) == ([(9.0,)], [(5,)])
    trades.execute("DROP TABLE trades CASCADE")
    assert views(trades) == []


def test_a_name_can_be_used_again_for_something_else(trades: laminar.Database) -> None:
    trades.execute("DROP TABLE trades; CREATE TABLE trades (note STRING)")
    assert rows(trades, "trades") == []
    trades.insert("trades", [("hello",)])
    trades.step()
    assert rows(trades, "trades") == [("hello",)]


def test_pending_rows_go_with_their_table(trades: laminar.Database) -> None:
    trades.insert("trades", [("C", 1.0, 1)])
    trades.execute("DROP TABLE trades; CREATE TABLE trades (note STRING)")
    trades.step()
    assert rows(trades, "trades") == []


RECURSIVE = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT DISTINCT n + 1 FROM r WHERE n < 3)"
    " SELECT r.n, t.symbol FROM r CROSS JOIN trades t"
)


def test_refresh_policies(trades: laminar.Database) -> None:
    trades.execute(
        "CREATE MATERIALIZED VIEW i WITH (refresh_policy = 'incremental') AS"
        " SELECT symbol, SUM(volume) AS v FROM trades GROUP BY symbol;"
        "CREATE MATERIALIZED VIEW f WITH (refresh_policy = 'FULL') AS"
        " SELECT symbol, SUM(volume) AS v FROM trades GROUP BY symbol;"
        f"CREATE MATERIALIZED VIEW a WITH (refresh_policy = auto) AS {RECURSIVE}"
    )
    shown = {
        name: strategy for name, strategy, _ in trades.execute("SHOW MATERIALIZED VIEWS").rows()
    }
    assert shown == {"i": "incremental", "f": "full", "a": "full"}
    with pytest.raises(laminar.NotIncremental) as refused:
        trades.execute(
            f"CREATE MATERIALIZED VIEW x WITH (refresh_policy = 'incremental') AS {RECURSIVE}"
        )
    assert refused.value.reason == "RECURSION_BY_LEVEL"
    assert "RECURSION_BY_LEVEL" in str(refused.value)
    assert views(trades) == ["i", "f", "a"]
    trades.delete("trades", [("B", 5.0, 1)])
    report = trades.step()
    assert report is not None
    assert report.views["f"].strategy == "full"
    assert rows(trades, "f") == rows(trades, "i") == [("A", 20), ("B", 1)]
    assert len(rows(trades, "a")) == 9


@pytest.mark.parametrize(
    ("query", "error", "part"),
    [
        ("SELECT rand() AS r FROM trades", laminar.NonDeterministic, "rand"),
        ("SELECT now() AS n FROM trades", laminar.NonDeterministic, "now"),
        ("SELECT current_date AS d FROM trades", laminar.NonDeterministic, "current_date"),
        *(
            (f"SELECT symbol FROM trades WHERE {text}", laminar.NonDeterministic, part)
            for text, part in (
                ("TIMESTAMP_SECONDS(volume) < 'now'", "the time 'now'"),
                ("TIMESTAMP_SECONDS(volume) > TO_TIMESTAMP('Now ')", "the time 'Now '"),
                ("DATE_FROM_UNIX_DATE(volume) = 'today'", "the time 'today'"),
                ("TIMESTAMP_SECONDS(volume) > '09:00'", "the time '09:00'"),
                ("volume IN (SELECT MAX(HOUR('tomorrow CET')) FROM trades)", "'tomorrow CET'"),
            )
        ),
        ("SELECT symbl FROM trades", laminar.UnknownColumn, 'did you mean "symbol"?'),
        ("SELECT * FROM trade", laminar.UnknownRelation, 'did you mean "trades"?'),
        ("SELECT SUM(array(1)) AS s FROM trades", laminar.InvalidQuery, "DATATYPE_MISMATCH"),
        ("SELECT symbol + INTERVAL '1' DAY AS s FROM trades WHERE price", laminar.InvalidQuery, ""),
        ("SELECT nosuch(symbol) AS s FROM trades", laminar.UnknownFunction, "nosuch"),
        ("SELECT symbol, symbol FROM trades", laminar.AmbiguousColumns, "symbol"),
        ("SELECT symbol AS __weight FROM trades", laminar.NotSupported, "__weight"),
        ("SELECT FROM WHERE", laminar.SqlError, ""),
        ("SELECT * FROM v", laminar.UnknownRelation, ""),
    ],
)
def test_a_view_that_cannot_be_is_refused(
    empty: laminar.Database, query: str, error: type[laminar.LaminarError], part: str
) -> None:
    with pytest.raises(error) as caught:
        empty.execute(f"CREATE MATERIALIZED VIEW v AS\n{query}")
    assert part in str(caught.value)
    assert "line " in caught.value.detail
    for noise in ("\tat ", "org.apache", "JVM", "Traceback"):
        assert noise not in str(caught.value)
    assert views(empty) == []
    empty.execute("CREATE MATERIALIZED VIEW v AS SELECT symbol FROM trades")
    empty.execute("DROP MATERIALIZED VIEW v")


def test_words_of_the_clock_are_words_where_no_time_is_asked_for(empty: laminar.Database) -> None:
    empty.execute(
        "CREATE MATERIALIZED VIEW v AS"
        " SELECT symbol, 'now' AS word, volume < HOUR('2026-01-01') AS h FROM trades"
        " WHERE symbol IN ('today', '09:00') AND TIMESTAMP_SECONDS(volume) > 'epoch'"
    )
    empty.execute("DROP MATERIALIZED VIEW v")


def test_a_stored_view_that_would_be_refused_today_keeps_nobody_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = "CREATE MATERIALIZED VIEW {} AS SELECT COUNT(*) AS n FROM t WHERE at < 'now'"
    with monkeypatch.context() as before, laminar.connect(tmp_path, spark=spark) as db:
        before.setattr("laminar.runtime.catalog.compile_view.unfinished_times", lambda _: [])
        db.execute("CREATE TABLE t (at TIMESTAMP)")
        db.execute(view.format("old"))
    with laminar.connect(tmp_path, spark=spark) as db:
        for number in range(4):
            db.execute("INSERT INTO t VALUES (TIMESTAMP '2020-01-01')")
            db.step()
            assert db.sql("SELECT n FROM old").rows() == [(number + 1,)]
        with pytest.raises(laminar.NonDeterministic):
            db.execute(view.format("new"))
