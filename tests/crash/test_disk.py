"""A disk that is full or cannot be written: told with a code, the last good state kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.store import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SIZE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, where the machine lets us have one."""
    path = tmp_path / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, check=False, capture_output=True).returncode
    except FileNotFoundError:
        done = 1
    if done:
        pytest.skip("a file system cannot be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_loses_nothing(spark: SparkSession, small_disk: Path) -> None:
    filler = small_disk / "filler"
    with laminar.connect(small_disk / "state", spark=spark) as db:
        db.execute(
            "CREATE TABLE t (n BIGINT, s STRING);"
            "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t"
        )
        db.insert("t", [(1, "a")])
        db.step()
        db.insert("t", [(2, "b")])
        free = os.statvfs(small_disk)
        filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize))
        for use in (db.step, db.checkpoint, lambda: db.insert("t", [(3, "c")])):
            with pytest.raises(laminar.StoreUnwritable, match="LMR-6006"):
                use()
        assert db.sql("SELECT n FROM v").rows() == [(1,)]
        filler.unlink()
        report = db.step()
        assert report is not None
        assert (report.epoch, report.rows_in) == (2, 1)
        filler.write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * 4096))
    # Opening writes nothing that it cannot do without.
    with laminar.connect(small_disk / "state", spark=spark) as db:
        assert db.sql("SELECT n FROM v").rows() == [(2,)]


POINTS = ["pending.after_write", "wal.after_write", "segment.after_write", "manifest.after_write"]


def test_a_write_that_fails_leaves_the_last_state(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS n FROM t")
    db.insert("t", [(1,)])
    db.step()
    for point in POINTS:

        def full(at: str, wanted: str = point) -> None:
            if at == wanted:
                raise OSError(28, os.strerror(28))

        epoch = db.engine.manifest.epoch
        with monkeypatch.context() as patch:
            patch.setattr(files, "failpoint", full)
            with pytest.raises(laminar.StoreUnwritable, match="No space left"):
                _change(db)
        assert db.engine.manifest.epoch == epoch
        db.insert("t", [(0,)])
        assert db.step() is not None
    total = db.sql("SELECT SUM(n) FROM t").rows()
    assert total == db.sql("SELECT n FROM v").rows() == [(1 + len(POINTS) - 1,)]


def _change(db: laminar.Database) -> None:
    db.insert("t", [(1,)])
    db.step()


def test_a_folder_that_is_read_only_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        db.execute("CREATE TABLE t (n BIGINT)")
    # A folder in the way of the lock's file stands for a disk that lets nobody write: the
    # superuser, as whom tests may run, may write into a folder without permissions.
    (tmp_path / "state" / "lock").unlink()
    (tmp_path / "state" / "lock").mkdir()
    with pytest.raises(laminar.StoreUnwritable, match="LMR-6006"):
        laminar.connect(tmp_path / "state", spark=spark)
    (tmp_path / "state" / "lock").rmdir()
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        assert db.sql("SELECT * FROM t").rows() == []
