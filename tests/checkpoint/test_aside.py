"""What is set aside is there after a power cut, before anything is taken from its old place."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.checkpoint import aside
from laminar.store import durable_files, links
from laminar.store.cursors import CursorStore

from .stored import build


class Unsynced:
    """Names that a power cut would take back: files in folders that were not synced since."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[Path] = set()
        bring, sync_dir, unlink = links.bring, durable_files.sync_dir, Path.unlink
        self.when_removed: set[Path] = set()

        def brought(source: Path, target: Path, *, copies: bool = False) -> None:
            bring(source, target, copies=copies)
            self.names.add(target)

        def synced(path: Path) -> None:
            sync_dir(path)
            self.names = {each for each in self.names if each.parent != path}

        def removed(path: Path, missing_ok: bool = False) -> None:
            self.when_removed |= self.names
            unlink(path, missing_ok)

        monkeypatch.setattr(aside, "bring", brought)
        monkeypatch.setattr(durable_files, "sync_dir", synced)
        monkeypatch.setattr(Path, "unlink", removed)


def test_a_whole_state_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path, 2)
    CursorStore(tmp_path).advance("k", 1)
    unsynced = Unsynced(monkeypatch)
    folder = aside.whole_state(tmp_path, made, "test")
    assert len([each for each in folder.rglob("*") if each.is_file()]) > 8
    assert unsynced.names == set()


def test_what_is_moved_is_durable_before_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(tmp_path, 2)
    path = tmp_path / made[1].traces["t"].files[0]
    unsynced = Unsynced(monkeypatch)
    aside.move(tmp_path, [path], aside.folder_for(tmp_path, "test"))
    assert not path.exists()
    assert unsynced.when_removed == set()
