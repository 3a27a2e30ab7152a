"""Checkpoints on disk: whole or not there, incremental, and never a reason to lose a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import laminar
from laminar.checkpoint import CheckpointStorage, DagCheckpointConfig, DagCheckpointMetadata
from laminar.checkpoint import metadata as module
from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.store import durable_files
from laminar.testing.crashes import Crash, crash_at

from .stored import build, flip

CONFIG = DagCheckpointConfig()


def draft(number: int, manifest: Manifest) -> DagCheckpointMetadata:
    return DagCheckpointMetadata(
        number, 0.0, 2, manifest.offsets, manifest.epoch, node_snapshots={"op": b"\x00state"}
    )


def all_files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_what_is_kept_can_be_read_back(tmp_path: Path) -> None:
    manifest = build(tmp_path, 2)[-1]
    storage = CheckpointStorage(tmp_path)
    made = storage.save(draft(storage.next_id(), manifest), manifest, CONFIG)
    again = CheckpointStorage(tmp_path)
    assert (again.ids(), again.next_id()) == ((1,), 2)
    assert again.read(1) == made
    assert again.manifest(1) == manifest
    assert again.faults(made, manifest) == {}
    assert (made.files, made.new_files, made.node_snapshots) == (4, 4, {"op": b"\x00state"})
    # A link, so that it costs no room; what goes from the store stays in the checkpoint.
    name = next(iter(manifest.files))
    assert (tmp_path / name).samefile(again.place(made, name))
    (tmp_path / name).unlink()
    assert again.faults(made, manifest) == {}
    with pytest.raises(laminar.NoCheckpointFound):
        again.read(2)


def test_only_new_segments_are_kept(tmp_path: Path) -> None:
    storage = CheckpointStorage(tmp_path)
    first, second = build(tmp_path, 2)
    storage.save(draft(1, first), first, CONFIG)
    made = storage.save(draft(2, second), second, CONFIG)
    assert (made.files, made.new_files) == (4, 2)
    assert 0 < made.new_bytes < made.bytes
    whole = storage.save(draft(3, second), second, DagCheckpointConfig(incremental=False))
    assert (whole.files, whole.new_files) == (4, 4)
    copied = storage.save(draft(4, second), second, DagCheckpointConfig(copies=True))
    name = next(iter(second.files))
    assert copied.new_files == 4
    assert not (tmp_path / name).samefile(storage.place(copied, name))
    flip(tmp_path / name)
    assert len(storage.faults(made, second)) == 1
    assert storage.faults(copied, second) == {}


def test_where_links_cannot_be_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifest,) = build(tmp_path, 1)

    def no_link(source: Path, _target: Path) -> None:
        raise OSError(18, os.strerror(18), str(source))

    monkeypatch.setattr("laminar.store.links.os.link", no_link)
    # Publishing the description falls back to a rename there, too.
    monkeypatch.setattr(durable_files, "_NO_LINKS", {18})
    made = CheckpointStorage(tmp_path).save(draft(1, manifest), manifest, CONFIG)
    assert CheckpointStorage(tmp_path).faults(made, manifest) == {}
    name = next(iter(manifest.files))
    assert not (tmp_path / name).samefile(CheckpointStorage(tmp_path).place(made, name))


def test_the_oldest_go_with_what_only_they_need(tmp_path: Path) -> None:
    storage = CheckpointStorage(tmp_path)
    manifests = build(tmp_path, 4)
    thin = [
        Manifest(m.epoch, {"t": m.traces["t"]}, {}, [], {}, EngineState(), "") for m in manifests
    ]
    storage.save(draft(1, manifests[0]), manifests[0], CONFIG)
    for number, manifest in enumerate(thin[1:], 2):
        storage.save(draft(number, manifest), manifest, CONFIG)
    before = all_files(storage.folder / "links")
    assert storage.retain(3) == [1]
    assert storage.ids() == (2, 3, 4)
    gone = before - all_files(storage.folder / "links")
    assert gone == manifests[0].files - thin[1].files
    assert len(gone) == 1
    assert storage.retain(1, pinned=[2]) == [3]
    for each in storage.complete():
        assert storage.faults(each, storage.manifest(each.checkpoint_id)) == {}


POINTS = [
    "checkpoint.before_files",
    "link.before_link",
    "link.after_link",
    "checkpoint.after_files",
    "checkpoint_state.before_write",
    "checkpoint_state.after_write",
    "checkpoint_state.before_rename",
    "checkpoint_state.after_rename",
    "checkpoint_state.after_sync",
    "checkpoint.before_write",
    "checkpoint.after_write",
    "checkpoint.before_rename",
    "checkpoint.after_rename",
    "checkpoint.after_sync",
    "checkpoint.before_remove",
    "checkpoint.after_remove",
]


def test_the_script_knows_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    first, second = build(tmp_path, 2)
    storage = CheckpointStorage(tmp_path)
    storage.save(draft(1, first), first, CONFIG)
    monkeypatch.setattr(durable_files, "failpoint", seen.append)
    storage.save(draft(2, second), second, CONFIG)
    storage.retain(1)
    assert list(dict.fromkeys(seen)) == POINTS


def _save_and_retain(storage: CheckpointStorage, manifest: Manifest) -> None:
    storage.save(draft(2, manifest), manifest, CONFIG)
    storage.retain(1)


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    first, second = build(tmp_path, 2)
    storage = CheckpointStorage(tmp_path)
    made = storage.save(draft(1, first), first, CONFIG)

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", crash_at(point))
        with pytest.raises(Crash):
            _save_and_retain(storage, second)
    again = CheckpointStorage(tmp_path)
    again.sweep()
    match point:
        case "checkpoint.after_rename" | "checkpoint.after_sync" | "checkpoint.before_remove":
            expected: tuple[int, ...] = (1, 2)
        case "checkpoint.after_remove":
            expected = (2,)
        case _:
            expected = (1,)
    assert again.ids() == expected
    needed = {name for each in again.ids() for name in again.manifest(each).files}
    assert all_files(again.folder / "links") == needed
    if 1 in expected:
        assert again.faults(made, first) == {}
    third = again.save(draft(again.next_id(), second), second, CONFIG)
    assert again.faults(third, second) == {}


def test_damage_is_reported_and_keeps_everything_else(tmp_path: Path) -> None:
    first, second = build(tmp_path, 2)
    storage = CheckpointStorage(tmp_path)
    storage.save(draft(1, first), first, CONFIG)
    storage.save(draft(2, second), second, CONFIG)
    before = all_files(storage.folder / "links")
    flip(storage.folder / f"{2:012d}" / "metadata.json")
    with pytest.raises(laminar.CheckpointCorrupt, match="LMR-6012"):
        storage.read(2)
    assert [each.checkpoint_id for each in storage.complete()] == [1]
    storage.sweep()
    assert all_files(storage.folder / "links") == before
    # A segment that is damaged by now is not taken for a good one.
    new = next(iter(second.files - first.files))
    flip(tmp_path / new)
    whole = DagCheckpointConfig(incremental=False)
    with pytest.raises(laminar.SegmentCorrupt):
        storage.save(draft(3, second), second, whole)
    assert storage.ids() == (1, 2)


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (manifest,) = build(tmp_path, 1)
    storage = CheckpointStorage(tmp_path)
    storage.save(draft(1, manifest), manifest, CONFIG)
    monkeypatch.setattr(module, "FORMAT_VERSION", 0)
    with pytest.raises(laminar.UnsupportedFormat, match="LMR-6002"):
        storage.read(1)
