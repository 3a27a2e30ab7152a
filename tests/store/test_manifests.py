from __future__ import annotations

from pathlib import Path

import pytest

from laminar.errors.store import (
    EpochExists,
    EpochNotFound,
    ManifestCorrupt,
    StoreUnwritable,
    UnsupportedFormat,
)
from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Segment, Trace
from laminar.store import ManifestStore
from laminar.store.durable_files import seal


def manifest(epoch: int, *names: str) -> Manifest:
    segments = tuple(
        Segment((name,), at, at, 1, 1, True, ("c",)) for at, name in enumerate(names, start=1)
    )
    traces = {"r": Trace("a INT, __weight BIGINT", segments)}
    return Manifest(
        epoch, traces, {"s": {"to": epoch}}, [], {}, EngineState(), "2026-01-01T00:00:00Z"
    )


@pytest.fixture
def store(tmp_path: Path) -> ManifestStore:
    made = ManifestStore(tmp_path)
    for epoch in (1, 2, 3):
        made.commit(manifest(epoch, "a"))
    return made


def path_of(tmp_path: Path, epoch: int) -> Path:
    return tmp_path / "manifests" / f"{epoch:012d}.json"


def test_nothing_is_committed_at_first(tmp_path: Path) -> None:
    empty = ManifestStore(tmp_path)
    assert empty.latest() is None
    assert empty.epochs() == ()
    assert empty.live_files() == frozenset()
    assert empty.prune(1) == frozenset()
    with pytest.raises(EpochNotFound, match="nothing is committed"):
        empty.get(1)


def test_what_was_committed_is_read_back(store: ManifestStore, tmp_path: Path) -> None:
    again = ManifestStore(tmp_path)
    assert again.epochs() == store.epochs()
    assert again.latest() == manifest(3, "a")
    assert again.get(2) == manifest(2, "a")


def test_an_epoch_is_committed_once(store: ManifestStore, tmp_path: Path) -> None:
    with pytest.raises(EpochExists):
        store.commit(manifest(3, "other"))
    with pytest.raises(EpochExists):
        ManifestStore(tmp_path).commit(manifest(3, "other"))
    assert store.latest() == manifest(3, "a")


@pytest.mark.parametrize("epoch", [0, 4])
def test_an_unknown_epoch_names_the_range(store: ManifestStore, epoch: int) -> None:
    with pytest.raises(EpochNotFound) as caught:
        store.get(epoch)
    assert (caught.value.epoch, caught.value.oldest, caught.value.newest) == (epoch, 1, 3)


@pytest.mark.parametrize("keep_bytes", [0, 1, 40, -1, -10])
def test_a_cut_manifest_is_not_skipped(
    store: ManifestStore, tmp_path: Path, keep_bytes: int
) -> None:
    path = path_of(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:keep_bytes])
    with pytest.raises(ManifestCorrupt, match=r"000000000003\.json"):
        store.latest()
    assert store.get(2) == manifest(2, "a")


def test_any_changed_byte_is_noticed(store: ManifestStore, tmp_path: Path) -> None:
    path = path_of(tmp_path, 3)
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(ManifestCorrupt):
            store.latest()


def test_a_manifest_under_another_name_is_corrupt(store: ManifestStore, tmp_path: Path) -> None:
    path_of(tmp_path, 3).rename(path_of(tmp_path, 4))
    with pytest.raises(ManifestCorrupt, match="describes epoch 3"):
        store.latest()


def test_an_intact_manifest_without_sense_is_corrupt(tmp_path: Path) -> None:
    path_of(tmp_path, 1).parent.mkdir()
    path_of(tmp_path, 1).write_bytes(seal({"format_version": 1, "epoch": 1}))
    with pytest.raises(ManifestCorrupt, match="cannot be understood"):
        ManifestStore(tmp_path).latest()


def test_a_manifest_from_the_future_is_refused(tmp_path: Path) -> None:
    path_of(tmp_path, 1).parent.mkdir()
    path_of(tmp_path, 1).write_bytes(seal({"format_version": 2}))
    with pytest.raises(UnsupportedFormat):
        ManifestStore(tmp_path).latest()


def test_foreign_files_are_no_epochs(store: ManifestStore, tmp_path: Path) -> None:
    for name in ("notes.txt", ".000000000009.json.abc.tmp", "9.json", "000000000009.json~"):
        (tmp_path / "manifests" / name).write_text("")
    assert store.epochs() == (1, 2, 3)


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "manifests").write_text("in the way")
    with pytest.raises(StoreUnwritable):
        ManifestStore(tmp_path).commit(manifest(1))


@pytest.mark.parametrize("reopened", [False, True])
def test_pruning_frees_what_no_kept_epoch_names(tmp_path: Path, reopened: bool) -> None:
    store = ManifestStore(tmp_path)
    assert store.live_files() == frozenset()
    store.commit(manifest(1, "a", "b"))
    store.commit(manifest(2, "a", "b", "c"))
    store.commit(manifest(3, "ab", "c"))
    store.commit(manifest(4, "ab", "cd"))
    if reopened:
        store = ManifestStore(tmp_path)
    assert store.live_files() == {"a", "b", "c", "ab", "cd"}
    assert store.prune(keep=3) == frozenset()
    assert store.prune(keep=1, pinned=[2]) == frozenset()
    assert store.epochs() == (2, 4)
    assert store.prune(keep=1) == {"a", "b", "c"}
    assert store.epochs() == (4,)
    assert store.live_files() == {"ab", "cd"}


def test_the_newest_epoch_always_stays(store: ManifestStore) -> None:
    store.prune(keep=0)
    assert store.epochs() == (3,)


def test_nothing_is_freed_while_a_manifest_cannot_be_read(
    store: ManifestStore, tmp_path: Path
) -> None:
    path_of(tmp_path, 2).write_text("damaged")
    with pytest.raises(ManifestCorrupt):
        store.prune(keep=1)
    with pytest.raises(ManifestCorrupt):
        store.live_files()
    assert store.epochs() == (1, 2, 3)
