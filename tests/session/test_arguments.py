"""Queries and changes with arguments: what Python gives is what Spark sees."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import laminar

pytestmark = pytest.mark.spark

NASTY = "x'); DROP TABLE t; -- \\' \n`"


def test_values_of_every_kind_come_back_as_they_are(shared: laminar.Database) -> None:
    values = {
        "n": None,
        "i": -7,
        "l": 1 << 40,
        "f": -0.5,
        "d": Decimal("-1.50"),
        "s": NASTY,
        "b": b"\x00'\xff",
        "day": date(1969, 12, 31),
        "at": datetime(2024, 3, 10, 2, 30, tzinfo=UTC),
        "xs": [1, None, 3],
        "m": {"a": 1},
    }
    asked = ", ".join(f":{name} AS {name}" for name in values)
    (row,) = shared.sql(f"SELECT {asked}", values).dicts()
    row["at"] = row["at"].replace(tzinfo=UTC) if row["at"].tzinfo is None else row["at"]
    assert {**row, "b": bytes(row["b"]), "m": dict(row["m"])} == values


def test_changes_take_arguments(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (id INT, name STRING)")
    db.execute(
        "INSERT INTO t VALUES (?, ?), (?, ?); UPDATE t SET name = ? WHERE id = ?",
        [1, NASTY, 2, None, "two", 2],
    )
    merge = "MERGE INTO t USING (VALUES (:id, :name)) AS s(a, b) ON id = a"
    insert = "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (a, b)"
    db.execute(
        f"{merge} {insert}; DELETE FROM t WHERE id = :gone", {"id": 3, "name": "c", "gone": 2}
    )
    db.step()
    assert sorted(db.sql("SELECT * FROM t WHERE id <= :most", {"most": 9}).rows()) == [
        (1, NASTY),
        (3, "c"),
    ]
