"""A disk that is full or cannot be written: told with a code, the last good state kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.store import durable_files

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

        epoch = db.engine.ledger.epoch
        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", full)
            with pytest.raises(laminar.StoreUnwritable, match="No space left"):
                _change(db)
        assert db.engine.ledger.epoch == epoch
        db.insert("t", [(0,)])
        assert db.step() is not None
    total = db.sql("SELECT SUM(n) FROM t").rows()
    assert total == db.sql("SELECT n FROM v").rows() == [(1 + len(POINTS) - 1,)]


def _change(db: laminar.Database) -> None:
    db.insert("t", [(1,)])
    db.step()


@pytest.fixture
def lockable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder that can be made read-only for this user."""
    found: Path = tmp_path if os.geteuid() else request.getfixturevalue("small_disk")
    return found


@contextmanager
def made_read_only(path: Path) -> Iterator[None]:
    """Let nobody write: not the superuser either, who may do so whatever permissions say."""
    if os.geteuid():
        folders = [path, *(each for each in path.rglob("*") if each.is_dir())]
        for each in folders:
            each.chmod(0o555)
        try:
            yield
        finally:
            for each in folders:
                each.chmod(0o755)
        return
    mount = ["mount", "-o", "remount"]
    subprocess.run([*mount, "-o", "ro", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run([*mount, "-o", "rw", str(path)], check=True)


def test_a_folder_that_is_read_only_is_told_and_can_be_read(
    spark: SparkSession, lockable: Path
) -> None:
    state = lockable / "state"
    with laminar.connect(state, spark=spark) as db:
        db.execute("CREATE TABLE t (n BIGINT)")
        db.insert("t", [(1,)])
        db.step()
        db.insert("t", [(2,)])
    with made_read_only(lockable):
        for path in (state, lockable / "new"):
            with pytest.raises(laminar.StoreUnwritable, match="LMR-6006") as told:
                laminar.connect(path, spark=spark)
            assert "read_only=True" in str(told.value)
        with laminar.connect(state, spark=spark, read_only=True) as db:
            assert db.sql("SELECT * FROM t").rows() == [(1,)]
            with pytest.raises(laminar.ReadOnlyDatabase, match="LMR-6022"):
                db.insert("t", [(3,)])
    with laminar.connect(state, spark=spark) as db:
        db.step()
        assert sorted(db.sql("SELECT * FROM t").rows()) == [(1,), (2,)]
