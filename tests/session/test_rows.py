"""Rows go in and out: in every form, exactly, or not at all."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "CREATE TABLE orders (id BIGINT, name STRING, amount DOUBLE)"


def rows(db: laminar.Database, query: str = "SELECT * FROM orders") -> list[tuple[Any, ...]]:
    return sorted(db.sql(query).rows(), key=repr)


def test_rows_arrive_in_every_form(db: laminar.Database, spark: SparkSession) -> None:
    db.execute(ORDERS)
    assert db.insert("orders", [{"id": 1, "name": "a", "amount": 1.5}, {"AMOUNT": 2, "id": 2}]) == 2
    assert db.insert("Orders", [(3, "c", 3.0)]) == 1
    assert db.insert("orders", pd.DataFrame({"id": [4], "name": ["d"], "amount": [4.0]})) == 1
    assert db.insert("orders", pa.table({"name": ["e"], "id": [5]})) == 1
    frame = spark.createDataFrame([("f", 6)], "name STRING, id INT")
    assert db.insert("orders", frame) == 1
    assert db.insert("orders", []) == 0
    assert rows(db) == []
    report = db.step()
    assert report is not None
    assert report.rows_in == 6
    assert rows(db) == [
        (1, "a", 1.5),
        (2, None, 2.0),
        (3, "c", 3.0),
        (4, "d", 4.0),
        (5, "e", None),
        (6, "f", None),
    ]


def test_rows_that_were_read_can_be_deleted(db: laminar.Database) -> None:
    db.execute(
        "CREATE TABLE t (ts TIMESTAMP, plain TIMESTAMP_NTZ, m MAP<STRING, INT>, l ARRAY<INT>)"
    )
    noon = datetime(2026, 7, 1, 12, 0, 0, 5)
    given = [(noon, noon, {"a": 1}, [1, None]), (None, None, None, None)]
    db.insert("t", given)
    db.step()
    found = rows(db, "SELECT * FROM t")
    assert found == sorted(given, key=repr)
    with pytest.raises(laminar.RowNotFound):
        db.delete("t", [(noon, noon, {"a": 2}, [1, None])])
    assert db.delete("t", found) == 2
    db.step()
    assert rows(db, "SELECT * FROM t") == []


def test_a_deletion_takes_one_copy_of_a_row_that_is_there(db: laminar.Database) -> None:
    db.execute(ORDERS)
    row, other = (1, "a", 1.0), (2, None, None)
    db.insert("orders", [row, row, other])
    db.step()
    with pytest.raises(laminar.RowNotFound) as caught:
        db.delete("orders", [other, (9, "z", 1.0)])
    assert caught.value.code == "LMR-4002"
    assert "9" in caught.value.detail
    with pytest.raises(laminar.RowNotFound):
        db.delete("orders", [row, row, row])
    assert db.step() is None  # nothing of what was refused is pending
    assert db.delete("orders", [row, other]) == 2
    with pytest.raises(laminar.RowNotFound):
        db.delete("orders", [other])  # gone already, though no epoch has seen it yet
    db.step()
    assert rows(db) == [row]


def test_rows_that_are_only_pending_can_be_deleted(db: laminar.Database) -> None:
    db.execute(ORDERS)
    db.insert("orders", [(1, "a", 1.0), (2, "b", 2.0)])
    assert db.delete("orders", [(1, "a", 1.0)]) == 1
    db.step()
    assert rows(db) == [(2, "b", 2.0)]


def test_a_row_that_does_not_fit_leaves_no_trace(db: laminar.Database) -> None:
    db.execute("CREATE TABLE orders (id BIGINT NOT NULL, name STRING, amount DOUBLE)")
    misfits: list[tuple[Any, type[laminar.LaminarError]]] = [
        ([(1, "a", 1.0), ("x", "a", 1.0)], laminar.RowDoesNotMatch),
        ([(1, "a")], laminar.RowDoesNotMatch),
        ([{"id": 1.5}], laminar.RowDoesNotMatch),
        ([{"id": None}], laminar.RowDoesNotMatch),
        ([{"idd": 1}], laminar.UnknownColumn),
        ({"id": 1}, laminar.DataError),
    ]
    for given, error in misfits:
        with pytest.raises(error):
            db.insert("orders", given)
        assert db.step() is None
    assert db.insert("orders", [(7, "ok", None)]) == 1
    assert db.step() is not None
    assert rows(db) == [(7, "ok", None)]


def test_a_frame_that_does_not_fit_is_an_error_of_ours(
    db: laminar.Database, spark: SparkSession
) -> None:
    db.execute(ORDERS)
    with pytest.raises(laminar.UnknownColumn) as unknown:
        db.insert("orders", spark.createDataFrame([(1, 2)], "id BIGINT, amunt INT"))
    assert unknown.value.suggestion == "amount"
    with pytest.raises(laminar.RowDoesNotMatch):
        db.insert("orders", spark.createDataFrame([("x",)], "id STRING"))
    with pytest.raises(laminar.InvalidQuery, match="DIVIDE_BY_ZERO"):
        db.insert("orders", spark.range(1).selectExpr("1 / id AS amount"))
    assert db.step() is None


def test_names_that_are_not_known_are_corrected(db: laminar.Database) -> None:
    db.execute(ORDERS)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM orders")
    with pytest.raises(laminar.UnknownRelation) as unknown:
        db.insert("order", [(1, "a", 1.0)])
    assert unknown.value.hint == 'did you mean "orders"?'
    with pytest.raises(laminar.NotSupported, match="view"):
        db.insert("v", [(1,)])
