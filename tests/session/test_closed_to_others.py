"""Rows and texts of a database are its owner's: no file of it is open to others, ever."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import laminar
from laminar.runtime.engine.recover import PARTS

SCRIPT = """
    CREATE TABLE t (k INT, v STRING);
    CREATE SOURCE s (n BIGINT) WITH (connector = 'datagen', rows_total = '400', seed = '1',
        backpressure = 'spill', buffer_rows = '10', max_rows = '10');
    CREATE MATERIALIZED VIEW a AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;
    CREATE MATERIALIZED VIEW b AS SELECT COUNT(*) AS n FROM s;
    CREATE MATERIALIZED VIEW plain AS SELECT k, UPPER(v) AS v FROM t WHERE k > 1;
    SET laminar.compaction_fanout = 2;
"""


def open_to_others(root: Path) -> list[str]:
    paths = [root, *root.rglob("*")]
    return [
        f"{path.relative_to(root)} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in paths
        if not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & 0o077
    ]


def used(db: Any) -> None:
    """Have every part of a database write something, some of it by Spark's own tasks."""
    db.execute(SCRIPT)
    db.engine.env.store.collect_limit = 0  # rows travel through no driver: Spark writes them
    for number in range(4):
        db.insert("t", [(number, "x"), (7, "y")])
        db.step()
    db.checkpoint()
    list(db.subscribe("a", name="me"))
    db.insert("t", [(8, "z")])
    db.execute("SET laminar.checkpoint_copies = on")
    db.checkpoint()
    db.step()
    db.restore(1)
    db.insert("t", [(9, "z")])


@pytest.mark.parametrize("umask", [0o000, 0o022], ids=oct)
def test_no_file_of_a_database_is_open_to_others(
    spark: SparkSession, tmp_path: Path, umask: int
) -> None:
    root = tmp_path / "state"
    before = os.umask(umask)
    try:
        with laminar.connect(root, spark=spark) as db:
            used(db)
            assert open_to_others(root) == []
        with laminar.connect(root, spark=spark) as db:
            db.step()
    finally:
        os.umask(before)
    assert open_to_others(root) == []
    assert {each.name for each in root.iterdir()} <= set(PARTS)


def test_a_state_that_was_open_is_closed_when_it_is_opened_to_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "state"
    with laminar.connect(root, spark=spark) as db:
        db.execute("CREATE TABLE t (k INT)")
        db.insert("t", [(1,)])
        db.step()
        db.checkpoint()
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.copytree(root, tmp_path / "read")
    with laminar.connect(tmp_path / "read", spark=spark, read_only=True):
        assert open_to_others(tmp_path / "read")  # a reader changes nothing
    with laminar.connect(root, spark=spark):
        assert open_to_others(root) == []
