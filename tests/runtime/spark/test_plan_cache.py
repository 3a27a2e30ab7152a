"""A plan is kept if it is right for whatever rows come, at whatever time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from laminar.model.trace import Segment
from laminar.runtime.spark import plan_cache as module
from laminar.runtime.spark.plan_cache import Planner
from laminar.runtime.spark.session import suit
from laminar.runtime.spark.statement_cache import StatementCache
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

SCHEMA = "k INT, v STRING, __weight BIGINT"


def segment(store: SegmentStore, rows: int, first: int = 0) -> Segment:
    """Write so many rows; a third of them has the same key."""
    number = f.col("id").cast("int")
    frame = store._spark.range(first, first + rows).select(
        (number % 3).alias("k"),
        f.sha2(f.col("id").cast("string"), 512).alias("v"),
        f.lit(1).cast("bigint").alias("__weight"),
    )
    written = store.write_arrow("r", 1, frame.toArrow())
    assert written is not None
    return written


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


KEPT = {
    "filter": "SELECT k, v FROM {r} WHERE k > 0",
    "groups": "SELECT k, COUNT(*) AS n, MAX(v) AS m FROM {r} GROUP BY k",
    "no keys": "SELECT COUNT(*) AS n FROM {r}",
    "distinct": "SELECT DISTINCT k FROM {r}",
    "distinct in groups": "SELECT k, COUNT(DISTINCT v) AS n FROM {r} GROUP BY k",
    "rollup": "SELECT k, v, COUNT(*) AS n FROM {r} GROUP BY ROLLUP (k, v)",
    "window": "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM {r}",
    "first of each": (
        "SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n"
        " FROM {r}) WHERE n <= 2"
    ),
    "top": "SELECT k, v FROM {r} ORDER BY v LIMIT 2",
    "limit": "SELECT k FROM (SELECT k FROM {r} ORDER BY v LIMIT 2) ORDER BY k",
    "explode": "SELECT k, part FROM {r} LATERAL VIEW EXPLODE(SPLIT(v, '0')) AS part",
    "union": "SELECT k, COUNT(*) AS n FROM (TABLE {r} UNION ALL TABLE {r}) GROUP BY k",
    "values": "SELECT k FROM VALUES (1), (2) AS given(k)",
    "of nothing": "SELECT 1 AS one",
}

PLANNED_AGAIN = {
    "join": "SELECT a.k, b.v FROM {r} a JOIN {r} b ON a.v = b.v",
    "cross join": "SELECT a.k FROM {r} a CROSS JOIN (SELECT MAX(k) AS m FROM {r}) b",
    "in": "SELECT k FROM {r} WHERE v IN (SELECT MAX(v) FROM {r})",
    "not exists": "SELECT k FROM {r} a WHERE NOT EXISTS (SELECT 1 FROM {r} b WHERE a.k < b.k)",
    "scalar subquery": "SELECT k FROM {r} WHERE v = (SELECT MAX(v) FROM {r})",
    "now": "SELECT k, CURRENT_TIMESTAMP() AS at FROM {r}",
    "today, folded away": "SELECT k FROM {r} WHERE CURRENT_DATE() > DATE '2000-01-01'",
    "a string for now": "SELECT k FROM {r} WHERE TIMESTAMP_SECONDS(k) < 'now'",
    "a word for now": "SELECT k, TO_TIMESTAMP('now') > TIMESTAMP_SECONDS(k) AS past FROM {r}",
    "words put together": "SELECT k FROM {r} WHERE DATE(CONCAT('to', 'day')) > '2000-01-01'",
    "user": "SELECT k, CURRENT_USER() AS who FROM {r}",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", [*KEPT, *PLANNED_AGAIN])
def test_a_prepared_statement_gives_what_a_new_one_gives(
    store: SegmentStore, statement_cache: StatementCache, case: str
) -> None:
    few, more, others = segment(store, 4), segment(store, 50, 100), segment(store, 9, 7)
    text = KEPT.get(case) or PLANNED_AGAIN[case]
    for shown in ([few], [more, others], [few, more, others], [others]):
        view = statement_cache.view("r__delta", SCHEMA, shown)
        found = statement_cache.statement(text.format(r=view)).toArrow()
        store.frame(SCHEMA, shown).createOrReplaceTempView("r_anew")
        anew = store._spark.sql(text.format(r="r_anew"))
        if case != "now":
            assert sorted(map(str, found.to_pylist())) == sorted(
                map(str, anew.toArrow().to_pylist())
            )
        assert found.schema == anew.limit(0).toArrow().schema
    (prepared,) = statement_cache._statements.values()
    assert (prepared.plan is not None) == (case in KEPT)


def test_what_is_asked_for_the_time_is_told_the_time(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    view = statement_cache.view("r__delta", SCHEMA, [segment(store, 1)])
    times = [
        statement_cache.statement(f"SELECT CURRENT_TIMESTAMP() AS at FROM {view}").collect()[0].at
        for _ in range(2)
    ]
    assert times[0] < times[1]


def test_a_plan_is_made_when_a_statement_comes_again_and_when_a_day_may_have_begun(
    store: SegmentStore, statement_cache: StatementCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[float] = []
    clock = 0.0
    plan = Planner.plan

    def counted(planner: Planner, frame: DataFrame) -> object:
        made.append(clock)
        return plan(planner, frame)

    monkeypatch.setattr(Planner, "plan", counted)
    monkeypatch.setattr(module, "time", lambda: clock)
    view = statement_cache.view("r__delta", SCHEMA, [segment(store, 4)])
    for moment in (10.0, 20.0, 30.0, 899.0, 900.0, 901.0, 4000.0):
        clock = moment
        assert statement_cache.statement(f"SELECT k FROM {view}").count() == 4
    assert made == [20.0, 900.0, 4000.0]


def test_frames_leave_nothing_on_the_plan_they_are_made_of(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    view = statement_cache.view("r__delta", SCHEMA, [segment(store, 4)])
    for _ in range(5):
        statement_cache.statement(f"SELECT k FROM {view}").collect()
    (prepared,) = statement_cache._statements.values()
    assert prepared.plan is not None
    dataset = store._spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]
    assert prepared.plan.getTagValue(dataset.DATASET_ID_TAG()).isEmpty()


def test_sizes_choose_the_join_each_time(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    store._spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "5000")
    small, large = segment(store, 3), segment(store, 500)
    text = "SELECT a.k FROM {r} a JOIN {r} b ON a.v = b.v"
    for shown, expected, rows in [(small, True, 3), (large, False, 500)] * 2:
        frame = statement_cache.statement(
            text.format(r=statement_cache.view("r__before", SCHEMA, [shown]))
        )
        assert ("BroadcastHashJoin" in plan(frame)) == expected
        assert frame.count() == rows


def test_settings_of_an_epoch_reach_a_plan_that_is_kept(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    text = "SELECT k, COUNT(*) AS n FROM {r} GROUP BY k"
    few, many = segment(store, 10), segment(store, 300_000)
    for shown, generated, shuffled in [(few, False, False), (many, True, True)] * 3:
        suit(store._spark, changed=shown.rows, held=0)
        frame = statement_cache.statement(
            text.format(r=statement_cache.view("r__delta", SCHEMA, [shown]))
        )
        assert ("*(1)" in plan(frame)) == generated
        assert ("Exchange" in plan(frame)) == shuffled
        assert sum(row.n for row in frame.collect()) == shown.rows


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, COUNT(*) AS n FROM {r} GROUP BY k",
        "SELECT a.k, b.v FROM {r} a JOIN {r} b ON a.v = b.v",
        "SELECT k FROM (SELECT k, v FROM {r} WHERE k > 1 UNION SELECT k, v FROM {r})",
    ],
)
def test_small_faces_are_not_shuffled_and_not_cut_off(
    store: SegmentStore, statement_cache: StatementCache, text: str
) -> None:
    shown = [segment(store, 5), segment(store, 5, 100)]
    view = statement_cache.view("r__delta", SCHEMA, shown)
    found = plan(statement_cache.statement(text.format(r=view)))
    assert "Exchange hash" not in found
    assert "Coalesce" not in found


def test_what_is_prepared_can_be_written_by_spark(
    store: SegmentStore, statement_cache: StatementCache
) -> None:
    for rows in (6, 9, 12):
        view = statement_cache.view("r__delta", SCHEMA, [segment(store, rows)])
        frame = statement_cache.statement(f"SELECT k, COUNT(*) AS n FROM {view} GROUP BY k")
        written = store.write_frame("counts", 1, frame)
        assert written is not None
        counts = store.frame("k INT, n BIGINT, __weight BIGINT", [written]).collect()
        assert sorted(tuple(row) for row in counts) == [(key, rows // 3, 1) for key in range(3)]
