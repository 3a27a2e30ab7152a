"""Opening a state directory: the newest state that is whole, and nothing deleted on the way."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import laminar
from laminar import RecoveryConfig, RecoveryMode
from laminar.checkpoint import CheckpointStorage, DagCheckpointConfig, DagRecoveryManager, recovery
from laminar.checkpoint.metadata import DagCheckpointMetadata
from laminar.checkpoint.recovery import Recovered
from laminar.checkpoint.restore import finish, numbers
from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.runtime.engine.recover import recover as open_at
from laminar.store import EpochLog, ManifestStore, PendingLog, durable_files, links

from .stored import CATALOG, build, flip


def checkpoint(root: Path, manifest: Manifest, *, copies: bool = False) -> DagCheckpointMetadata:
    storage = CheckpointStorage(root)
    offsets = manifest.offsets
    draft = DagCheckpointMetadata(
        storage.next_id(), 0.0, 2, offsets, manifest.epoch, pushed={"t": offsets["t"]}
    )
    return storage.save(draft, manifest, DagCheckpointConfig(copies=copies))


def recover(root: Path) -> Recovered:
    return DagRecoveryManager(root, laminar.RecoveryConfig(parallelism=2)).recover()


def newest(root: Path) -> Manifest:
    found = ManifestStore(root).latest()
    assert found is not None
    return found


def manifest_path(root: Path, epoch: int) -> Path:
    return root / "manifests" / f"{epoch:012d}.json"


def file_of(root: Path, manifest: Manifest, relation: str, at: int = -1) -> Path:
    return root / manifest.traces[relation].segments[at].files[0]


def test_nothing_is_a_new_database(tmp_path: Path) -> None:
    assert recover(tmp_path).metrics.source == "new"


def test_a_whole_state_is_opened_as_it_is(tmp_path: Path) -> None:
    made = build(tmp_path, 3)[-1]
    before = sorted(tmp_path.rglob("*"))
    found = recover(tmp_path).metrics
    assert (found.source, found.epoch, found.checkpoint_id) == ("manifest", 3, None)
    assert (found.damaged, found.set_aside, found.verified_files) == ((), None, 6)
    assert found.source_offsets == {"t": 3}
    assert found.within_target
    assert newest(tmp_path) == made
    assert sorted(tmp_path.rglob("*")) == before


def _flip(path: Path) -> None:
    flip(path)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _remove(path: Path) -> None:
    path.unlink()


WAYS: list[Callable[[Path], None]] = [_flip, _truncate, _remove]


@pytest.mark.parametrize("damage", WAYS)
def test_a_damaged_epoch_is_replayed_from_the_one_before(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    made = build(tmp_path, 3)
    damage(file_of(tmp_path, made[2], "t"))
    found = recover(tmp_path).metrics
    assert (found.epoch, found.source) == (2, "manifest")
    assert [str(file_of(tmp_path, made[2], "t"))] == [each.path for each in found.damaged]
    assert newest(tmp_path) == made[1]
    assert [each.epoch for each in EpochLog(tmp_path).open_after(2)] == [3]
    assert found.set_aside is not None
    assert manifest_path(Path(found.set_aside), 3).exists()
    # Its other files go along, before they are swept as nobody's.
    assert file_of(Path(found.set_aside), made[2], "v").exists()
    assert "epoch 2" in found.told()


@pytest.mark.parametrize("damage", [_flip, _truncate])
def test_a_damaged_manifest_is_reported_and_the_one_before_it_used(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    made = build(tmp_path, 3)
    damage(manifest_path(tmp_path, 3))
    damage(manifest_path(tmp_path, 1))
    found = recover(tmp_path).metrics
    assert (found.epoch, len(found.damaged)) == (2, 2)
    assert newest(tmp_path) == made[1]
    assert not manifest_path(tmp_path, 1).exists()
    # Everything is in order now.
    assert recover(tmp_path).metrics.damaged == ()


def test_without_the_log_rows_would_be_lost_so_nothing_is_touched(tmp_path: Path) -> None:
    build(tmp_path, 3, log=False)
    flip(manifest_path(tmp_path, 3))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(laminar.RecoveryFailed, match="LMR-1015") as refused:
        recover(tmp_path)
    assert "epochs 3 to 3" in refused.value.detail
    assert "RecoveryMode.Specific" in refused.value.hint
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("damage", WAYS)
def test_a_good_copy_in_a_checkpoint_heals(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    made = build(tmp_path, 2)
    checkpoint(tmp_path, made[1], copies=True)
    more = build(tmp_path, 3, since=3)[-1]
    path = file_of(tmp_path, more, "t", 0)
    damage(path)
    found = recover(tmp_path)
    assert (found.metrics.epoch, found.rebuild) == (3, ())
    assert found.metrics.healed == (more.traces["t"].segments[0].files[0],)
    assert newest(tmp_path) == more
    assert recover(tmp_path).metrics.damaged == ()


COPIES = EngineState(settings={"checkpoint_copies": "on"})


def shared_with_checkpoints(root: Path) -> list[str]:
    """Return live files that damage could reach through a checkpoint, or the other way."""
    kept = {each.stat().st_ino for each in (root / "checkpoints").rglob("*.parquet")}
    live = [*(root / "data").rglob("*.parquet"), *(root / "pending").rglob("*.parquet")]
    return [path.name for path in live if path.stat().st_ino in kept]


def test_what_is_healed_from_copies_is_a_copy(tmp_path: Path) -> None:
    made = build(tmp_path, 2, state=COPIES)
    checkpoint(tmp_path, made[1], copies=True)
    more = build(tmp_path, 3, since=3, state=COPIES)[-1]
    path = file_of(tmp_path, more, "t", 0)
    flip(path)
    assert recover(tmp_path).metrics.healed
    assert shared_with_checkpoints(tmp_path) == []
    flip(path)  # the checkpoint can heal it once more
    assert recover(tmp_path).metrics.healed


def test_what_is_brought_back_from_copies_is_a_copy(tmp_path: Path) -> None:
    made = build(tmp_path, 2, state=COPIES)
    checkpoint(tmp_path, made[1], copies=True)
    flip(file_of(tmp_path, build(tmp_path, 3, since=3, state=COPIES)[-1], "t", -1))
    flip(file_of(tmp_path, made[1], "t"))
    for epoch in (1, 2):
        flip(manifest_path(tmp_path, epoch))
    assert recover(tmp_path).metrics.source == "checkpoint"
    assert shared_with_checkpoints(tmp_path) == []


def test_a_damaged_view_is_left_to_be_rebuilt(tmp_path: Path) -> None:
    made = build(tmp_path, 3)[-1]
    flip(file_of(tmp_path, made, "v", 0))
    found = recover(tmp_path)
    assert (found.metrics.epoch, found.rebuild) == (3, ("v",))
    placed = newest(tmp_path)
    assert (placed.epoch, placed.revision, set(placed.traces)) == (3, 1, {"t"})
    # Until it is rebuilt and committed, every opening says so again.
    assert recover(tmp_path).rebuild == ("v",)


def test_a_view_that_depends_on_when_it_was_computed_is_not_rebuilt(tmp_path: Path) -> None:
    timed = [CATALOG[0], {**CATALOG[1], "emission": {"mode": "close", "every_us": 0}}]
    made = build(tmp_path, 3, catalog=timed)[-1]
    flip(file_of(tmp_path, made, "v", 0))
    with pytest.raises(laminar.RecoveryFailed):
        recover(tmp_path)


def test_the_checkpoint_and_the_log_bring_everything_back(tmp_path: Path) -> None:
    made = build(tmp_path, 2)
    saved = checkpoint(tmp_path, made[1], copies=True)
    build(tmp_path, 4, since=3)
    shutil.rmtree(tmp_path / "manifests")
    shutil.rmtree(tmp_path / "data")
    found = recover(tmp_path).metrics
    assert (found.source, found.checkpoint_id, found.epoch) == ("checkpoint", 1, 2)
    placed = newest(tmp_path)
    assert placed.traces == made[1].traces
    assert all((tmp_path / name).exists() for name in placed.files)
    assert [each.epoch for each in EpochLog(tmp_path).open_after(2)] == [3, 4]
    assert saved.checkpoint_id == 1
    # A damaged newer checkpoint is passed by.
    newer = checkpoint(tmp_path, placed, copies=True)
    flip(tmp_path / "checkpoints" / f"{newer.checkpoint_id:012d}" / "metadata.json")
    shutil.rmtree(tmp_path / "manifests")
    again = recover(tmp_path).metrics
    assert again.checkpoint_id == 1
    assert len(again.damaged) == 1


def test_a_damaged_line_of_the_log_is_told_once(tmp_path: Path) -> None:
    build(tmp_path, 3)
    flip(tmp_path / "wal" / "epochs.log", at=20)
    found = recover(tmp_path).metrics
    assert (found.epoch, [each.reason for each in found.damaged]) == (3, ["line 1 is damaged"])
    assert found.set_aside is not None
    assert (Path(found.set_aside) / "wal" / "epochs.log").exists()
    assert [each.epoch for each in EpochLog(tmp_path).open_after(1)] == [2, 3]
    assert recover(tmp_path).metrics.damaged == ()


def test_if_nothing_is_whole_nothing_is_touched(tmp_path: Path) -> None:
    made = build(tmp_path, 2)
    checkpoint(tmp_path, made[1])
    flip(file_of(tmp_path, made[1], "t", 0))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(laminar.RecoveryFailed, match="LMR-1015"):
        recover(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("point", ["recovery.before_aside", "recovery.after_aside"])
def test_a_crash_during_recovery_is_recovered_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    made = build(tmp_path, 3)
    checkpoint(tmp_path, made[1], copies=True)
    flip(manifest_path(tmp_path, 3))
    flip(manifest_path(tmp_path, 2))

    def crash(at: str) -> None:
        if at == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", crash)
        with pytest.raises(KeyboardInterrupt):
            recover(tmp_path)
    found = recover(tmp_path).metrics
    assert found.epoch == 2
    assert newest(tmp_path).traces == made[1].traces


def test_newer_definitions_are_kept_and_only_changed_views_rebuilt(tmp_path: Path) -> None:
    made = build(tmp_path, 2)
    last = made[-1]
    # Epoch 2 gets a revision with another view and a changed one; then its table is damaged.
    catalog = [
        last.catalog[0],
        {**last.catalog[1], "query": "select SUM(n)  AS n from t"},
        {"kind": "view", "name": "w", "query": "SELECT n + 1 AS n FROM v"},
        {"kind": "view", "name": "x", "query": "SELECT n FROM t"},
    ]
    store = ManifestStore(tmp_path)
    state = EngineState(sinks=({"name": "k"},))
    store.commit(Manifest(2, last.traces, {"t": 2}, catalog, {}, state, "", revision=1))
    flip(file_of(tmp_path, last, "t"))
    found = recover(tmp_path)
    assert (found.metrics.epoch, found.rebuild) == (1, ("w", "x"))
    placed = newest(tmp_path)
    assert [each["name"] for each in placed.catalog] == ["t", "v", "w", "x"]
    assert set(placed.traces) == {"t", "v"}
    assert placed.state.sinks == ({"name": "k"},)


def test_whoever_accepts_the_loss_names_a_checkpoint(tmp_path: Path) -> None:
    made = build(tmp_path, 2, log=False)
    saved = checkpoint(tmp_path, made[1])
    last = build(tmp_path, 3, since=3, log=False)[-1]
    file_of(tmp_path, last, "t").unlink()
    flip(manifest_path(tmp_path, 1))
    with pytest.raises(laminar.RecoveryFailed):
        open_at(tmp_path, None)
    with pytest.raises(laminar.NoCheckpointFound):
        open_at(tmp_path, RecoveryConfig(RecoveryMode.Specific(7)))
    found = open_at(tmp_path, RecoveryConfig(RecoveryMode.Specific(saved.checkpoint_id)))
    assert (found.metrics.checkpoint_id, found.metrics.epoch) == (saved.checkpoint_id, 4)
    placed = newest(tmp_path)
    assert (placed.epoch, placed.traces, placed.offsets) == (4, made[1].traces, {"t": 2})
    # The row of epoch 3 is not pushed again: it came after the checkpoint, and is set aside.
    assert found.metrics.set_aside is not None
    pending = PendingLog(tmp_path, numbers(placed))
    finish(placed, pending, EpochLog(tmp_path))
    assert pending.after("t", 2) == []
    assert len(PendingLog(Path(found.metrics.set_aside)).after("t", 2)) == 1
    assert pending.append("t", pa.table({"n": [9]})) == 4
    # Opened once more after a crash, what was pushed since stays.
    again = PendingLog(tmp_path, numbers(placed))
    finish(placed, again, EpochLog(tmp_path))
    assert [batch.seq for batch in again.after("t", 2)] == [4]
    assert recover(tmp_path).metrics.damaged == ()


def test_recovery_that_takes_too_long_says_so(tmp_path: Path) -> None:
    build(tmp_path, 2)
    config = RecoveryConfig(target_recovery_time=1e-9)
    found = DagRecoveryManager(tmp_path, config).recover().metrics
    assert not found.within_target
    assert "was to take 1e-09 s: 4 files" in found.missed()
    assert recover(tmp_path).metrics.missed() == ""


def test_what_is_restored_is_what_has_a_state(tmp_path: Path) -> None:
    fused = {"kind": "view", "name": "w", "query": "SELECT n FROM t"}
    build(tmp_path, 2, catalog=[*CATALOG, fused])
    assert recover(tmp_path).metrics.nodes_restored == 2


def test_files_are_put_back_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path, 2)
    checkpoint(tmp_path, made[1], copies=True)
    for name in made[1].files:
        (tmp_path / name).unlink()
    meeting = threading.Barrier(2)
    real = links.bring_durably

    def brings(source: Path, target: Path, *, copies: bool = False) -> None:
        meeting.wait(60)  # one alone would wait in vain
        real(source, target, copies=copies)

    monkeypatch.setattr(recovery, "bring_durably", brings)
    assert len(recover(tmp_path).metrics.healed) == 4
    assert newest(tmp_path) == made[1]
