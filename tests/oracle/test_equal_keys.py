"""Keys of two types that are equal after a cast: views agree with Spark and keep their strategy."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from laminar.delta.program import Strategy
from laminar.plan import joins, subqueries
from laminar.plan.equal_keys import Compared, Pair
from laminar.plan.scope import text
from laminar.session import connect
from laminar.testing import Oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

Row = tuple[Any, ...]

DDL = (
    "id INT, i INT, l BIGINT, d DOUBLE, m DECIMAL(10,2), w DECIMAL(24,5), b BOOLEAN, da DATE,"
    " ts TIMESTAMP, s STRING, sd STRING, sb STRING, p STRING"
)
WIDE = 2**53
ROWS: list[Row] = [
    (1, 1, WIDE, float(WIDE), Decimal("1"), Decimal(WIDE), True, date(2026, 1, 1),
     datetime(2026, 1, 1), "1", "2026-01-01", "true", "a"),
    (2, 1, WIDE + 1, 1.0, Decimal("1.50"), Decimal(WIDE + 1), False, date(2026, 1, 2),
     datetime(2026, 1, 1, 12), "01", "2026-1-1", "T", "A"),
    (3, 2, 1, -0.0, Decimal("2"), Decimal("1.00000"), None, None, datetime(2026, 1, 2), " 1", None,
     "no", "b"),
    (4, None, 0, float("nan"), None, Decimal("1.00001"), True, date(2026, 1, 2), None, "2",
     " 2026-01-02", None, None),
    (5, 0, None, None, Decimal("0"), None, False, date(1969, 12, 31), datetime(1969, 12, 31), None,
     "1969-12-31", "0", "B"),
    (6, 2, 2, 1.5, Decimal("1"), Decimal("2"), None, date(2026, 1, 1), datetime(2026, 1, 1), "+2",
     "2026-01-01", "yes", "a"),
]  # fmt: skip

LCASE = "(SELECT id, p COLLATE UTF8_LCASE AS c FROM {})"

VIEWS = {
    "semi": "SELECT x.id FROM t x WHERE x.i IN (SELECT s FROM u)",
    "full": "SELECT x.id AS a, y.id AS b FROM t x FULL JOIN u y ON x.i = y.s AND x.id < y.id + 2",
    "counted": "SELECT x.id, (SELECT COUNT(*) FROM u y WHERE y.s = x.i) AS n FROM t x",
    "marked": "SELECT x.id, EXISTS (SELECT 1 FROM u y WHERE y.sd = x.da) AS e FROM t x",
}
LONG = {
    "left_date": "SELECT x.id AS a, y.id AS b FROM t x LEFT JOIN u y ON x.da = y.sd",
    "right_time": "SELECT x.id AS a, y.id AS b FROM t x RIGHT JOIN u y ON x.da = y.ts",
    "full_boolean": "SELECT x.id AS a, y.id AS b FROM t x FULL JOIN u y ON x.b = y.sb",
    "anti_double": "SELECT x.id FROM t x LEFT ANTI JOIN u y ON x.d = y.l",
    "semi_double": "SELECT x.id FROM t x LEFT SEMI JOIN u y ON x.d = y.l AND x.id <> y.id",
    "null_safe": "SELECT x.id AS a, y.id AS b FROM t x FULL JOIN u y ON x.d <=> y.w",
    "scales": "SELECT x.id AS a, y.id AS b FROM t x LEFT JOIN u y ON x.m = y.w",
    "one_sided": "SELECT x.id AS a, y.id AS b FROM t x LEFT JOIN u y"
    " ON x.id < 9 AND x.i = y.p AND y.p RLIKE '^[0-9]+$'",
    "one_sided_too": "SELECT x.id FROM t x LEFT ANTI JOIN u y"
    " ON x.id = y.id AND x.i = y.p AND y.p RLIKE '^[0-9]+$'",
    "using": "SELECT k, a, b FROM (SELECT i AS k, id AS a FROM t)"
    " FULL JOIN (SELECT s AS k, id AS b FROM u) USING (k)",
    "natural": "SELECT * FROM (SELECT d AS k, id AS a FROM t)"
    " NATURAL LEFT JOIN (SELECT l AS k, id AS b FROM u)",
    "three": "SELECT x.id AS a, y.id AS b, z.id AS c FROM t x LEFT JOIN u y ON x.d = y.l"
    " LEFT JOIN t z ON y.l = z.s",
    "not_in": "SELECT x.id FROM t x WHERE x.d NOT IN (SELECT l FROM u WHERE l IS NOT NULL)",
    "not_in_null": "SELECT x.id FROM t x WHERE x.i NOT IN (SELECT s FROM u)",
    "in_two": "SELECT x.id FROM t x WHERE (x.i, x.da) IN (SELECT s, sd FROM u)",
    "not_in_two": "SELECT x.id FROM t x WHERE (x.i, x.da) NOT IN (SELECT s, sd FROM u)",
    "in_marked": "SELECT x.id, x.i NOT IN (SELECT s FROM u) AS o, x.b IN (SELECT sb FROM u) AS e"
    " FROM t x",
    "in_or": "SELECT x.id FROM t x WHERE x.id = 4 OR x.w IN (SELECT d FROM u)",
    "in_correlated": "SELECT x.id FROM t x WHERE x.i IN (SELECT s FROM u y WHERE y.da = x.ts)",
    "not_exists": "SELECT x.id FROM t x WHERE NOT EXISTS (SELECT 1 FROM u y WHERE y.s = x.m)",
    "scalar_twice": "SELECT x.id, (SELECT MAX(y.id) FROM u y WHERE y.sd = x.da AND y.s = x.i) AS m"
    " FROM t x",
    "lateral": "SELECT x.id, q.n FROM t x LEFT JOIN LATERAL"
    " (SELECT COUNT(*) AS n FROM u y WHERE y.s = x.i) q ON TRUE",
    "groups": "SELECT q.i, z.n FROM (SELECT DISTINCT i FROM t) q FULL JOIN"
    " (SELECT s, COUNT(*) AS n FROM u GROUP BY s) z ON q.i = z.s",
    "union": "SELECT i AS v FROM t UNION SELECT w FROM u",
    "except": "SELECT d AS v FROM t EXCEPT ALL SELECT l FROM u",
    "cased": "SELECT x.id, CASE WHEN x.i = y.s THEN 1 WHEN x.da IN (y.sd, y.ts) THEN 2 END AS c"
    " FROM t x JOIN u y ON x.d = y.w",
    "collated": f"SELECT x.id AS a, y.id AS b FROM {LCASE.format('t')} x FULL JOIN"
    f" {LCASE.format('u')} y ON x.c = y.c",
    "collated_one": f"SELECT x.id FROM {LCASE.format('t')} x LEFT ANTI JOIN u y"
    " ON x.c = y.p COLLATE UTF8_LCASE",
    "collated_bytes": f"SELECT x.id AS a, y.id AS b FROM {LCASE.format('t')} x LEFT JOIN u y"
    " ON x.c COLLATE UTF8_BINARY = y.p AND x.id <> y.id + 3",
}  # fmt: skip


def compare(spark: SparkSession, views: dict[str, str]) -> None:
    """Compare views over three epochs, with deletions of some of several that are equal."""
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        for table in "tu":
            oracle.table(table, DDL)
        for name, sql in views.items():
            db.execute(f"CREATE MATERIALIZED VIEW `{name}` AS {sql}")
            assert db.engine.defined.catalog.programs[name].strategy is not Strategy.FULL
        oracle.insert("t", ROWS[:4])
        oracle.insert("u", [*ROWS, ROWS[1]])
        oracle.step()
        oracle.delete("u", [ROWS[1], ROWS[0], ROWS[3]])
        oracle.insert("t", ROWS[4:])
        oracle.step()
        oracle.delete("u", [ROWS[1], ROWS[2]])
        oracle.delete("t", ROWS[:2])
        oracle.insert("u", [ROWS[0]])
        oracle.step()


@pytest.mark.spark
@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(3))
def test_keys_of_two_types(spark: SparkSession, part: int) -> None:
    compare(spark, dict(list(VIEWS.items())[part::3]))


@pytest.mark.spark
@pytest.mark.long
def test_keys_of_more_types(spark: SparkSession) -> None:
    compare(spark, LONG)


def _as_written(_ctx: Any, _left: Any, _right: Any, given: Sequence[Compared], _by: Any) -> Any:
    return list(given)


def _paired(_ctx: Any, _left: Any, _right: Any, given: Any) -> list[Pair]:
    return [Pair(text(one), text(other), by) for (one, other), by in given]


@pytest.fixture
def planned_otherwise(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Plan keys without casts, as older versions did; returns what ends that."""
    monkeypatch.setattr(joins, "paired", _paired)
    monkeypatch.setattr(subqueries, "comparable", _as_written)
    return monkeypatch.undo


@pytest.mark.long
@pytest.mark.spark
def test_a_view_that_was_stored_by_another_plan_is_computed_again(
    spark: SparkSession, tmp_path: Path, planned_otherwise: Callable[[], None]
) -> None:
    def rows(db: Any, view: str) -> list[Row]:
        return sorted(map(tuple, db.sql(f"SELECT * FROM {view}").rows()))

    with connect(str(tmp_path / "db"), spark=spark) as db:
        db.execute("CREATE TABLE t (k INT); CREATE TABLE u (s STRING, n INT)")
        db.execute("CREATE MATERIALIZED VIEW some AS SELECT k FROM t WHERE k IN (SELECT s FROM u)")
        db.execute("CREATE MATERIALIZED VIEW many AS SELECT k, COUNT(*) AS c FROM some GROUP BY k")
        db.execute("CREATE MATERIALIZED VIEW alike AS SELECT k FROM t WHERE k IN (SELECT n FROM u)")
        db.insert("t", [(1,), (2,)])
        db.insert("u", [("1", 1), ("01", 7)])
        db.step()
        assert rows(db, "some") == [(1,), (1,)]
    planned_otherwise()
    with connect(str(tmp_path / "db"), spark=spark) as db:
        assert db.recovery.rebuilt == ("some", "many")
        assert (rows(db, "some"), rows(db, "many")) == ([(1,)], [(1, 1)])
        db.delete("u", [("01", 7)])
        db.insert("t", [(1,)])
        db.step()
        assert (rows(db, "some"), rows(db, "many")) == ([(1,), (1,)], [(1, 2)])
    with connect(str(tmp_path / "db"), spark=spark) as db:
        assert db.recovery.rebuilt == ()
