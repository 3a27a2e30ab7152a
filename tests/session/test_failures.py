"""A view that fails: it is named, keeps its rows, and takes what it missed once it can."""

from __future__ import annotations

from typing import Any

import pytest

import laminar

pytestmark = pytest.mark.spark


@pytest.fixture
def ratios(db: laminar.Database) -> laminar.Database:
    """One view that divides, one that reads it, and one that has nothing to do with either."""
    db.execute(
        "CREATE TABLE t (id BIGINT, d BIGINT);"
        "CREATE MATERIALIZED VIEW good AS SELECT COUNT(*) AS n FROM t;"
        "CREATE MATERIALIZED VIEW ratio AS SELECT SUM(10 / d) AS q FROM t;"
        "CREATE MATERIALIZED VIEW twice AS SELECT q * 2 AS q FROM ratio"
    )
    db.insert("t", [(1, 1), (2, 2)])
    db.step()
    return db


def state(db: laminar.Database) -> tuple[Any, ...]:
    values = [db.sql(f"SELECT * FROM {name}").rows()[0][0] for name in ("good", "ratio", "twice")]
    return (db.sql("SELECT 1").epoch, *values)


def test_a_view_that_fails_stays_and_the_others_go_on(ratios: laminar.Database) -> None:
    assert state(ratios) == (1, 2, 15.0, 30.0)
    ratios.insert("t", [(3, 0)])
    with pytest.raises(laminar.OperatorError) as caught:
        ratios.step()
    assert "ratio" in caught.value.message
    assert "DIVIDE_BY_ZERO" in caught.value.detail
    assert "\tat " not in str(caught.value)
    report = caught.value.report
    assert (report.epoch, report.rows_in, set(report.views)) == (2, 1, {"good"})
    assert report.held["ratio"].is_failure
    assert report.held["twice"].reason == "waits for ratio (failed)"
    assert state(ratios) == (2, 3, 15.0, 30.0)
    with pytest.raises(laminar.OperatorError) as again:  # the first retry is immediate
        ratios.step()
    assert again.value.report is None
    assert state(ratios) == (2, 3, 15.0, 30.0)
    ratios.execute("DROP MATERIALIZED VIEW ratio CASCADE")
    assert ratios.step() is None
    assert ratios.sql("SELECT * FROM good").rows() == [(3,)]


@pytest.mark.long
def test_another_definition_is_a_way_out(ratios: laminar.Database) -> None:
    ratios.insert("t", [(3, 0)])
    with pytest.raises(laminar.OperatorError):
        ratios.step()
    fixed = "SELECT SUM(10 / NULLIF(d, 0)) AS q FROM t"
    ratios.execute(f"CREATE OR REPLACE MATERIALIZED VIEW ratio AS {fixed}")
    assert state(ratios) == (2, 3, 15.0, 30.0)
    ratios.insert("t", [(4, 5)])
    ratios.step()
    assert state(ratios) == (3, 4, 17.0, 34.0)


@pytest.mark.long
def test_taking_the_row_back_is_another_way_out(ratios: laminar.Database) -> None:
    ratios.insert("t", [(3, 0)])
    with pytest.raises(laminar.OperatorError):
        ratios.step()
    ratios.delete("t", [(3, 0)])
    ratios.insert("t", [(4, 5)])
    ratios.step()
    assert state(ratios) == (3, 3, 17.0, 34.0)
    assert ratios.sql("SELECT COUNT(*) FROM good, ratio").epoch == 3


def test_a_paused_view_stays_with_its_dependents(ratios: laminar.Database) -> None:
    ratios.insert("t", [(3, 0)])
    ratios.execute("PAUSE MATERIALIZED VIEW ratio")
    report = ratios.step()
    assert report is not None
    assert set(report.views) == {"good"}
    assert state(ratios) == (2, 3, 15.0, 30.0)
    assert ("ratio", "incremental", "paused") in ratios.execute("SHOW MATERIALIZED VIEWS").rows()
    with pytest.raises(laminar.OperatorError, match="ratio"):
        ratios.execute("RESUME MATERIALIZED VIEW ratio")
    assert state(ratios) == (2, 3, 15.0, 30.0)
    assert ("ratio", "incremental", "paused") in ratios.execute("SHOW MATERIALIZED VIEWS").rows()
    with pytest.raises(laminar.UnknownRelation):
        ratios.execute("PAUSE MATERIALIZED VIEW t")


@pytest.mark.long
def test_resuming_brings_a_view_up_to_date(ratios: laminar.Database) -> None:
    ratios.execute("PAUSE MATERIALIZED VIEW ratio")
    ratios.insert("t", [(3, 5)])
    ratios.step()
    assert state(ratios) == (2, 3, 15.0, 30.0)
    ratios.execute("RESUME MATERIALIZED VIEW ratio")
    assert state(ratios) == (3, 3, 17.0, 34.0)
    ratios.insert("t", [(4, 10)])
    ratios.step()
    assert state(ratios) == (4, 4, 18.0, 36.0)


def test_a_view_goes_on_though_another_one_fails(ratios: laminar.Database) -> None:
    ratios.execute("PAUSE MATERIALIZED VIEW good")
    ratios.insert("t", [(3, 0)])
    with pytest.raises(laminar.OperatorError):
        ratios.step()
    with pytest.raises(laminar.OperatorError, match="ratio"):
        ratios.execute("RESUME MATERIALIZED VIEW good")
    assert state(ratios) == (3, 3, 15.0, 30.0)
    shown = ratios.sql("SELECT state FROM laminar_system.materialized_views WHERE name = 'good'")
    assert shown.rows() == [("running",)]


def test_a_paused_projection_stays_too(db: laminar.Database) -> None:
    db.execute(
        "CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW p AS SELECT n + 1 AS n FROM t;"
        "CREATE MATERIALIZED VIEW s AS SELECT SUM(n) AS n FROM p"
    )
    db.insert("t", [(1,)])
    db.step()
    db.execute("PAUSE MATERIALIZED VIEW p")
    db.insert("t", [(5,)])
    db.step()
    assert db.sql("SELECT * FROM s").rows() == [(2,)]
    assert db.sql("SELECT * FROM p").rows() == [(2,)]


def test_a_row_that_is_gone_no_longer_fails(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (n BIGINT)")
    db.insert("t", [(0,), (5,)])
    db.step()
    db.delete("t", [(0,)])
    db.step()
    db.execute("CREATE MATERIALIZED VIEW q AS SELECT 10 / n AS q FROM t")
    assert db.sql("SELECT * FROM q").rows() == [(2.0,)]


def test_a_view_that_fails_over_what_is_there_is_not_created(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (n BIGINT)")
    db.insert("t", [(0,)])
    db.step()
    with pytest.raises(laminar.OperatorError, match='"q"'):
        db.execute("CREATE MATERIALIZED VIEW q AS SELECT SUM(1 / n) AS q FROM t")
    assert db.execute("SHOW MATERIALIZED VIEWS").rows() == []
    db.execute("CREATE MATERIALIZED VIEW q AS SELECT SUM(n) AS q FROM t")
    assert db.sql("SELECT * FROM q").rows() == [(0,)]
