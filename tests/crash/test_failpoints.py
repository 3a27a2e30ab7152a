"""A crash at any named point: opened again, everything is as the changes say.

`make test` crashes at some points, `make test-all` at every fourth, `make soak` at every one that
an epoch, a compaction, a sink, a checkpoint, a restore and an opening after a crash pass.
"""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.store import durable_files
from laminar.testing.crashes import Crash, crash_at

from .workload import acknowledge, apply, define, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ("restore.after_commit",)
ONCE = {"wal.after_create", "port.before_remove", "port.after_remove"}
"""What a database (`tests/store/test_wal.py` crashes there) or a process passes but once."""
THOROUGH = os.environ.get("LAMINAR_TESTS") == "all"
EVERY = 1 if int(os.environ.get("LAMINAR_KILLS", "0")) >= 10 else 4
"""Of all steps there are `make test-all` takes every fourth, `make soak` each."""


def cycle(db: laminar.Database, acks: Path, count: int) -> None:
    """Pass everything durable once; to go back to a checkpoint just taken changes nothing."""
    for i in (count, count + 1):
        apply(db, i)
        acknowledge(acks)
        db.step()
    db.engine.settle()
    db.restore(db.checkpoint())


def test_a_crash_at_any_point(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, out, acks = tmp_path / "state", tmp_path / "out", tmp_path / "acks"
    seen: list[str] = []
    with laminar.connect(state, spark=spark) as db:
        define(db, out)
        db.execute("SET laminar.checkpoint_interval_ms = 0")
        count = verify(db, acks, out)
        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", seen.append)
            cycle(db, acks, count)
    assert set(SOME) <= set(seen)
    opening: list[str] = []
    points = [each for each in dict.fromkeys(seen) if each not in ONCE][::EVERY]
    for point in points if THOROUGH else SOME:
        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", opening.append)
            db = laminar.connect(state, spark=spark)
        try:
            count = verify(db, acks, out)
            with monkeypatch.context() as patch:
                patch.setattr(durable_files, "failpoint", crash_at(point))
                # The thread of a sink dies for itself, and gets no further.
                is_sink = point.startswith(("sink", "cursor"))
                with nullcontext() if is_sink else pytest.raises(Crash):
                    cycle(db, acks, count)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"at {point}")
            raise
        finally:
            db.close()
    for point in list(dict.fromkeys(opening))[::EVERY] if THOROUGH else ():
        with laminar.connect(state, spark=spark) as db:
            count = verify(db, acks, out)
            with monkeypatch.context() as patch:
                patch.setattr(durable_files, "failpoint", crash_at("manifest.before_rename"))
                with pytest.raises(Crash):
                    cycle(db, acks, count)
        # Not every opening has something to do there.
        with monkeypatch.context() as patch, suppress(Crash):
            patch.setattr(durable_files, "failpoint", crash_at(point))
            laminar.connect(state, spark=spark).close()
    with laminar.connect(state, spark=spark) as db:
        assert verify(db, acks, out) >= count
        assert db.recovery.damaged == ()
