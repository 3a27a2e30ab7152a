"""Rows in flight: kept with a checkpoint, put back, taken once, and gone with their epoch."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import laminar
from laminar.checkpoint import (
    CheckpointStorage,
    DagCheckpointConfig,
    DagCheckpointMetadata,
    DagRecoveryManager,
)
from laminar.checkpoint.in_flight import Delivered, InFlight, Overtaken, put_back
from laminar.checkpoint.restore import finish, go_back, load
from laminar.model.trace import Manifest
from laminar.store import (
    EpochLog,
    ManifestStore,
    PendingLog,
    Range,
    discard,
    durable_files,
    parquet,
)
from laminar.testing.crashes import Crash, crash_at

from .stored import build, flip, segment

AHEAD = pa.table({"n": [99]})


def overtaken(root: Path, epoch: int, said: dict[str, int] | None = None) -> Overtaken:
    """An epoch in flight that has read one row of a connector, and one that waits in time."""
    made = segment(root, "s", epoch)
    taken = Range("s", [epoch - 1], [epoch])
    log = EpochLog(root)
    entry = log.begin(epoch, [taken, Range("t", epoch - 1, epoch)], 1000 + epoch, said)
    log.close()
    ahead = AHEAD if epoch == 3 else None
    return Overtaken(entry, (Delivered(taken, made, 1, {"": epoch}, ahead),))


def kept(root: Path) -> tuple[CheckpointStorage, DagCheckpointMetadata, Manifest]:
    """Two committed epochs, a checkpoint of the second, and two more in flight."""
    manifest = build(root, 2)[-1]
    waiting = [overtaken(root, 3), overtaken(root, 4, {"s": 7})]
    storage = CheckpointStorage(root)
    draft = DagCheckpointMetadata(1, 0.0, 2, manifest.offsets, manifest.epoch)
    made = storage.save(draft, manifest, DagCheckpointConfig(), (), waiting)
    # The epochs fail, or are compacted away: what was in flight is in the checkpoint alone.
    discard(root, [name for each in waiting for name in each.files])
    return storage, made, manifest


def test_what_was_in_flight_comes_again_without_its_source(tmp_path: Path) -> None:
    storage, made, _ = kept(tmp_path)
    assert storage.read(1).in_flight.keys() == made.in_flight.keys() == {"3", "4"}
    done = go_back(tmp_path, storage, ManifestStore(tmp_path), load(storage, 1))
    assert done.epoch == 3
    log = EpochLog(tmp_path)
    finish(done.manifest, PendingLog(tmp_path), log)
    # The same ranges, clock and announced watermarks, under the numbers that come next.
    assert [(e.epoch, e.now_ms, e.said) for e in log.open_after(3)] == [
        (4, 1003, {}),
        (5, 1004, {"s": 7}),
    ]
    waiting = InFlight(tmp_path, 3)
    waiting.keep_only([4, 5])
    first, second = (log.open_after(3)[at].ranges[0] for at in (0, 1))
    assert waiting.take(replace(first, end=[9]), 4) is None
    assert waiting.take(first, 5) is None
    found = waiting.take(first, 4)
    assert found is not None
    assert found.segment is not None
    assert (found.rows, found.largest, found.ahead) == (1, {"": 3}, AHEAD)
    assert (found.segment.lo, found.segment.hi) == (4, 4)
    assert parquet.decode(tmp_path / found.segment.files[0])["n"].to_pylist() == [3]
    # An epoch that fails throws its files away, and takes the rows once more.
    discard(tmp_path, found.segment.files)
    again = InFlight(tmp_path, 3).take(first, 4)
    assert again is not None
    waiting.forget_through(4)
    assert (waiting.holds(4), waiting.holds(5)) == (False, True)
    assert InFlight(tmp_path, 4).take(second, 5) is not None
    InFlight(tmp_path, 5).keep_only(())
    assert list((tmp_path / "in_flight").iterdir()) == []


def restored(root: Path) -> None:
    storage = CheckpointStorage(root)
    done = go_back(root, storage, ManifestStore(root), load(storage, 1))
    log = EpochLog(root)
    finish(done.manifest, PendingLog(root), log)
    waiting = InFlight(root, done.epoch)
    waiting.keep_only([each.epoch for each in log.open_after(done.epoch)])
    waiting.forget_through(4)


def test_a_crash_at_any_point_of_a_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path / "model")
    seen: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", seen.append)
        restored(shutil.copytree(tmp_path / "model", tmp_path / "whole"))
    points = list(dict.fromkeys(seen))
    assert {"in_flight.before_write", "restore.after_commit", "wal.after_sync"} <= set(points)
    for number, point in enumerate(points):
        root = shutil.copytree(tmp_path / "model", tmp_path / str(number))
        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", crash_at(point))
            with pytest.raises(Crash):
                restored(root)
        newest = ManifestStore(root).latest()
        assert newest is not None
        log = EpochLog(root)
        finish(newest, PendingLog(root), log)
        logged = log.open_after(newest.epoch)
        # As it was before, or with all that was in flight waiting for the next epochs.
        assert (newest.epoch, [each.now_ms for each in logged]) in (
            (2, [1003, 1004]),
            (3, [1003, 1004]),
        ), point
        waiting = InFlight(root, newest.epoch)
        waiting.keep_only([each.epoch for each in logged])
        if newest.epoch == 3 and "remove" not in point:
            found = [waiting.take(each.ranges[0], each.epoch) for each in logged]
            assert [each.rows for each in found if each] == [1, 1], point


def test_a_restore_that_is_cut_short_leaves_what_waited_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, made, _ = kept(tmp_path)
    entries = {4: made.in_flight["3"]}
    put_back(tmp_path, 2, storage.own_folder(made), entries)

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", crash_at("restore.after_bring"))
        with pytest.raises(Crash):
            go_back(tmp_path, storage, ManifestStore(tmp_path), load(storage, 1))
    again = InFlight(tmp_path, 2)
    again.keep_only([4])
    assert again.take(Range("s", [2], [3]), 4) is not None
    assert [path.name for path in (tmp_path / "in_flight").iterdir()] == [f"{2:012d}"]


def test_a_full_disk_leaves_the_state_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, _, manifest = kept(tmp_path)
    for point in ("link.before_link", "in_flight.after_write", "manifest.after_write"):

        def full(at: str, wanted: str = point) -> None:
            if at == wanted:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", full)
            with pytest.raises(laminar.StoreUnwritable, match="LMR-6006"):
                go_back(tmp_path, storage, ManifestStore(tmp_path), load(storage, 1))
        assert ManifestStore(tmp_path).latest() == manifest
        InFlight(tmp_path, 2).keep_only(())
    assert go_back(tmp_path, storage, ManifestStore(tmp_path), load(storage, 1)).epoch == 3


@pytest.mark.parametrize("what", ["note", "rows", "ahead"])
def test_damaged_rows_in_flight_are_refused(tmp_path: Path, what: str) -> None:
    storage, made, _ = kept(tmp_path)
    put_back(tmp_path, 2, storage.own_folder(made), {3: made.in_flight["3"]})
    top = tmp_path / "in_flight" / f"{2:012d}"
    paths = {"note": top / f"{3:012d}.json"}
    paths["ahead"], paths["rows"] = sorted(
        (top / f"{3:012d}").rglob("*.parquet"), key=lambda path: "data" in path.parts
    )
    flip(paths[what], 10)
    with pytest.raises(laminar.SegmentCorrupt, match="LMR-6005"):
        InFlight(tmp_path, 2).take(Range("s", [2], [3]), 3)
    if what != "note":  # a link: the checkpoint sees the same damage
        with pytest.raises(laminar.RecoveryFailed, match="LMR-1015"):
            load(storage, 1)


def test_a_checkpoint_of_the_first_format_reads_its_sources_again(tmp_path: Path) -> None:
    _, made, _ = kept(tmp_path)
    old = {**made.to_json(), "format_version": 1, "in_flight": {"3": {"s": [[2], [3]]}}}
    found = DagCheckpointMetadata.from_json(old)
    assert (found.in_flight, found.epoch) == ({}, 2)


@pytest.mark.parametrize("harm", ["none", "changed", "missing"])
def test_recovery_uses_what_is_whole_and_leaves_the_rest_to_the_source(
    tmp_path: Path, harm: str
) -> None:
    storage, made, manifest = kept(tmp_path)
    for name in manifest.files:  # no epoch is whole, so that the checkpoint is the newest state
        if not (tmp_path / name).samefile(storage.place(made, name)):
            raise AssertionError("they are links")
        (tmp_path / name).unlink()
    for path in (tmp_path / "manifests").iterdir():
        path.write_bytes(b"{}")
    (path,) = (storage.own_folder(made) / "data").rglob(f"{3:012d}-*")
    if harm == "missing":
        path.unlink()
    elif harm == "changed":
        flip(path)
    found = DagRecoveryManager(tmp_path).recover().metrics
    assert (found.source, found.epoch) == ("checkpoint", 2)
    assert (str(path) in " ".join(map(str, found.damaged))) == (harm != "none")
    waiting = InFlight(tmp_path, 2)
    assert (waiting.holds(3), waiting.holds(4)) == (harm == "none", True)
    taken = EpochLog(tmp_path).open_after(2)[1].ranges[0]
    assert waiting.take(taken, 4) is not None
