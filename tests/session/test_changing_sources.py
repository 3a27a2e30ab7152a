"""Sources that take rows back: every view follows, and what they cannot mean is refused."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.errors import RowNotDelivered, TakesNothingBack

from .changes_source import SCRIPTS, declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "SELECT v, COUNT(*) AS n, SUM(k) AS s, MAX(x) AS m FROM {s} GROUP BY v",
    "pairs": "SELECT a.k, b.v FROM {s} a JOIN {s} b ON a.k = b.k AND a.v < b.v",
    "kinds": "SELECT DISTINCT v, x FROM {s}",
    "ranked": "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k, x) AS r FROM {s}",
    "latest": "SELECT v, LAST(k) AS k FROM {s} WHERE k >= 0 GROUP BY v",
}
VALUES = (0.0, -0.0, math.nan, 1.5, None)


def bag(rows: Iterable[tuple[Any, ...]]) -> Counter[str]:
    return Counter(map(repr, rows))


def require_equal(db: laminar.Database, source: str, expected: Iterable[tuple[Any, ...]]) -> None:
    """The table holds what the source stands for, and views what Spark makes of the table."""
    assert bag(db.sql(f"SELECT k, v, x FROM {source}").rows()) == bag(expected)
    for view, query in VIEWS.items():
        told = bag(db.sql(query.format(s=source)).rows())
        if view != "latest":  # which row is the last one goes by when rows came, as in the view
            assert bag(db.sql(f"SELECT * FROM {view}").rows()) == told, view


def create_views(db: laminar.Database, source: str) -> None:
    for view, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {view} AS {query.format(s=source)}")


@pytest.mark.parametrize("with_spark", ["false", "true"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_rows_without_a_key_come_and_go(db: laminar.Database, with_spark: str, seed: int) -> None:
    db.execute(declared("s", with_spark=with_spark, per_poll=7))
    create_views(db, "s")
    chance, script = random.Random(seed), SCRIPTS["s"]
    held: list[tuple[Any, ...]] = []
    for _ in range(5):
        for _ in range(chance.randrange(1, 9)):
            if held and chance.random() < 0.45:
                gone = held.pop(chance.randrange(len(held)))
                script.append((-1, *gone))
            else:
                row = (chance.randrange(4), chance.choice("ab"), chance.choice(VALUES))
                held.append(row)
                script.append((1, *row))
        db.drain()
        require_equal(db, "s", held)
    assert any(each[0] < 0 for each in script)
    counts = db.sql("SELECT rows_read, rows_stored FROM laminar_system.sources").rows()
    assert counts == [(len(script), len(script))]


@pytest.mark.parametrize("with_spark", ["false", "true"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_a_key_is_enough_to_take_a_row_back(
    db: laminar.Database, with_spark: str, seed: int
) -> None:
    db.execute(declared("s", key=True, with_spark=with_spark, per_poll=7))
    create_views(db, "s")
    chance, script = random.Random(seed), SCRIPTS["s"]
    held: dict[int, tuple[Any, ...]] = {}
    for _ in range(5):
        for _ in range(chance.randrange(1, 9)):
            key = chance.randrange(5)
            if chance.random() < 0.4:
                held.pop(key, None)  # also of a key that is not there: it may have come and gone
                script.append((-1, key, None, None))
            else:
                held[key] = (key, chance.choice("ab"), chance.choice(VALUES))
                script.append((1, *held[key]))
        db.drain()
        require_equal(db, "s", held.values())


def test_what_comes_last_is_taken_back_first(db: laminar.Database) -> None:
    """So FIRST and LAST see the copy that stays, as after a DELETE."""
    db.execute(
        declared("s") + ";CREATE MATERIALIZED VIEW v AS SELECT FIRST(k) AS f, LAST(k) AS l FROM s"
    )
    SCRIPTS["s"] += [(1, 1, "a", None), (1, 2, "a", None), (1, 1, "a", None)]
    db.step()
    assert db.sql("SELECT * FROM v").rows() == [(1, 1)]
    SCRIPTS["s"].append((-1, 1, "a", None))
    db.step()
    assert db.sql("SELECT * FROM v").rows() == [(1, 2)]


def test_a_weight_may_be_any_whole_number(db: laminar.Database) -> None:
    db.execute(declared("s"))
    SCRIPTS["s"] += [(3, 1, "a", None), (-2, 1, "a", None), (0, 9, "z", None)]
    db.step()
    assert db.sql("SELECT * FROM s").rows() == [(1, "a", None)]
    SCRIPTS["s"] += [(2, 1, "a", None), (-3, 1, "a", None)]
    db.step()
    assert db.sql("SELECT * FROM s").rows() == []


def test_a_row_that_is_not_there_cannot_be_taken_back(db: laminar.Database) -> None:
    db.execute(
        declared("s", per_poll=1)
        + ";CREATE TABLE t (n INT);CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM s"
    )
    SCRIPTS["s"] += [(1, 1, "a", 0.0), (-1, 1, "a", -0.0)]  # not the same row
    db.step()
    for _ in range(2):
        with pytest.raises(RowNotDelivered, match="takes back rows that are not there") as found:
            db.step()
        assert found.value.rows == [{"k": 1, "v": "a", "x": -0.0}]
    assert db.sql("SELECT * FROM v").rows() == [(1,)]
    SCRIPTS["s"][1] = (-1, 1, "a", 0.0)  # its producer is corrected
    db.step()
    assert db.sql("SELECT * FROM v").rows() == [(0,)]


@pytest.mark.parametrize("with_spark", ["false", "true"])
def test_weights_are_for_sources_that_say_so(db: laminar.Database, with_spark: str) -> None:
    db.execute(declared("s", appends="true", with_spark=with_spark))
    SCRIPTS["s"] += [(1, 1, "a", None), (-1, 1, "a", None)]
    with pytest.raises(TakesNothingBack, match="takes nothing back"):
        db.step()
    assert db.sql("SELECT * FROM s").rows() == []


def test_all_rows_are_kept_of_a_source_that_takes_some_back(db: laminar.Database) -> None:
    for option in ("retain = 'used'", "backpressure = 'drop'"):
        sql = declared("s").removesuffix(")") + f", {option})"
        with pytest.raises(laminar.NotSupported, match=option):
            db.execute(sql)
    db.execute(declared("s"))
    with pytest.raises(laminar.NotSupported, match="backpressure = 'drop'"):
        db.execute("ALTER SOURCE s SET (backpressure = 'drop')")


def test_a_change_that_is_read_again_after_a_restart_is_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(declared("s") + ";CREATE MATERIALIZED VIEW v AS SELECT SUM(k) AS s FROM s")
        SCRIPTS["s"] += [(1, 1, "a", None), (1, 2, "b", None)]
        db.step()
    SCRIPTS["s"].append((-1, 1, "a", None))
    with laminar.connect(tmp_path, spark=spark) as db:
        db.step()
        assert db.sql("SELECT * FROM v").rows() == [(2,)]
        assert db.sql("SELECT * FROM s").rows() == [(2, "b", None)]


def test_subscribers_hear_of_what_is_taken_back(db: laminar.Database) -> None:
    db.execute(declared("s"))
    subscription = db.subscribe("s", timeout=0)
    for change in ((1, 1, "a", None), (-1, 1, "a", None)):
        SCRIPTS["s"].append(change)
        db.step()
    told = [row for _, changes in subscription for row in changes.rows()]
    assert [(row[0], row[-1]) for row in told] == [(1, 1), (1, -1)]
