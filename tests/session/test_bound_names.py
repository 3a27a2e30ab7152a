"""A session of queries holds no more names than it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import laminar
from laminar.runtime.relations import bound_names

MOST = 6


def bound(db: Any) -> set[str]:
    return {row.viewName for row in db._reader.session.sql("SHOW VIEWS").collect()}


def test_names_of_changes_and_of_older_epochs_are_let_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_names, "MOST", MOST)
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE SCHEMA x; CREATE TABLE x.t (n INT)")
        for number in range(8):
            db.insert("x.t", [(number,)])
            db.step()
        first = db.sql("SELECT COUNT(*) FROM table_changes('x.t', 1, 1)")
        counts = []
        for epoch in range(2, 9):
            counts += db.sql(f"SELECT COUNT(*) FROM table_changes('x.t', {epoch}, {epoch})").rows()
            both = f"SELECT COUNT(*) FROM x.t AS OF EPOCH {epoch} a, x.t AS OF EPOCH {epoch - 1} b"
            counts += db.sql(both).rows()
        assert counts[:4] == [(1,), (2,), (1,), (6,)]
        assert len(bound(db)) <= MOST + 6
        assert first.rows() == [(1,)]  # asked for before, run after its name is gone
        with pytest.raises(laminar.LaminarError):
            db.sql("SELECT nope FROM table_changes('x.t', 1)")
        assert len(bound(db)) <= MOST + 6


def test_names_of_tables_that_come_and_go_are_let_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_names, "MOST", MOST)
    with laminar.connect(tmp_path, spark=spark) as db:
        for number in range(12):
            db.execute(f"CREATE TABLE t{number} (n INT)")
            assert db.sql(f"SELECT COUNT(*) FROM t{number}").rows() == [(0,)]
            db.execute(f"DROP TABLE t{number}")
        own = {name for name in bound(db) if name.startswith("t")}
        assert len(own) <= MOST + 2
