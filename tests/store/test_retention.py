from __future__ import annotations

from pathlib import Path

import pytest

from laminar.errors.store import StoreUnwritable
from laminar.store import discard, garbage, sweep

LIVE = ["data/r-1/000000000001-a.parquet", "data/r-1/000000000002-b.parquet"]
KEPT = [
    "manifests/000000000001.json",
    "pending/t-1/000000000001.parquet",
    "pending/t-1/000000000002.parquet",
    "elsewhere/000000000001-a.parquet",
    "notes.tmp",
]
DEAD = [
    "data/r-1/000000000003-c.parquet",
    "data/r-2/000000000001-a.parquet",
    "data/r-2/.000000000004-d.tmp/part-0.parquet",
    "data/r-2/.000000000004-d.tmp/.part-0.parquet.crc",
    "data/r-2/.000000000004-d.tmp/_SUCCESS",
    "manifests/.000000000002.json.abc.tmp",
    "pending/t-1/.000000000003.parquet.abc.tmp",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in LIVE + KEPT + DEAD:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def all_files(root: Path) -> set[str]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix() for path in found}


def test_garbage_is_what_nothing_refers_to(root: Path) -> None:
    assert garbage(root, LIVE) == sorted(root / name for name in DEAD)
    assert all_files(root) == {*LIVE, *KEPT, *DEAD}


def test_sweeping_removes_the_garbage_and_nothing_else(root: Path) -> None:
    assert sweep(root, set(LIVE)) == sorted(root / name for name in DEAD)
    assert all_files(root) == {*LIVE, *KEPT}
    assert not (root / "data" / "r-2").exists()
    assert sweep(root, set(LIVE)) == []


def test_a_store_that_is_not_there_yet_has_no_garbage(tmp_path: Path) -> None:
    assert sweep(tmp_path / "new", []) == []


def test_the_root_may_be_given_in_another_spelling(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "data")
    assert len(sweep(Path(".."), LIVE)) == len(DEAD)
    assert all_files(root) == {*LIVE, *KEPT}


def test_discarding_removes_by_name(root: Path) -> None:
    discard(root, [DEAD[0], "data/r-9/gone-already.parquet"])
    assert all_files(root) == {*LIVE, *KEPT, *DEAD[1:]}


def test_a_file_that_cannot_be_removed_is_named(root: Path) -> None:
    (root / "data" / "folder").mkdir()
    with pytest.raises(StoreUnwritable, match="folder"):
        discard(root, ["data/folder"])
