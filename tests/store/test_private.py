"""A state is its owner's: whatever the umask, and also where an older version left it open."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from laminar.store import EpochLog, PendingLog, Range, StateLock, durable_files, private
from laminar.store.links import bring


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(top: Path) -> set[str]:
    return {
        f"{'d' if each.is_dir() else 'f'}{stat.S_IMODE(each.lstat().st_mode):o}"
        for each in (top, *top.rglob("*"))
    }


@pytest.mark.usefixtures("umask")
def test_what_is_created_is_closed_to_others(tmp_path: Path) -> None:
    root = tmp_path / "state"
    durable_files.make_root(root)
    durable_files.write_atomic(root / "a" / "b" / "c", b"x")
    durable_files.replace_atomic(root / "a" / "d", b"x")
    file = durable_files.SummedFile(root / "a" / "e")
    file.write(b"x")
    file.seal()
    bring(root / "a" / "d", root / "a" / "f", copies=True)
    log = EpochLog(root)
    log.begin(1, [Range("t", 0, 1)])
    log.mend()
    log.close()
    StateLock(root).release()
    assert modes(root) == {"d700", "f600"}


def test_folders_above_a_database_are_as_everybody_makes_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    durable_files.make_root(tmp_path / "a" / "b" / "state")
    os.umask(before)
    assert [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("a", "a/b")] == [0o755] * 2


def test_the_name_of_a_database_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable_files, "sync_dir", synced.append)
    durable_files.make_root(tmp_path / "a" / "state")
    assert synced == [tmp_path, tmp_path / "a"]


def test_an_older_state_is_closed_and_what_else_lies_there_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "state"
    for name in ("data/t/x.parquet", "manifests/1.json", "mine/notes.txt", "lock"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
        (root / name).chmod(0o644)
    (root / "data" / "t" / "link").symlink_to(root / "mine" / "notes.txt")
    for each in (root, *(path for path in root.rglob("*") if path.is_dir())):
        each.chmod(0o755)
    private.tighten(root, ["data", "manifests", "wal", "lock"])
    assert modes(root / "data") - {"f777"} == {"d700", "f600"}  # a link has the mode of links
    assert modes(root / "manifests") == {"d700", "f600"}
    assert modes(root / "lock") == {"f600"}
    assert modes(root / "mine") == {"d755", "f644"}
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_what_is_closed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PendingLog(tmp_path)
    durable_files.make_dir(tmp_path / "data" / "t")
    monkeypatch.setattr(os, "walk", None)  # nobody may call it
    private.tighten(tmp_path, ["data"])


def test_a_tightening_that_was_cut_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "x").touch(0o644)
        (tmp_path / "data" / name).chmod(0o755)
    (tmp_path / "data").chmod(0o755)
    done: list[Path] = []

    def crash(path: Path) -> None:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(path)
        real(path)

    real = private.close_to_others
    monkeypatch.setattr(private, "close_to_others", crash)
    with pytest.raises(KeyboardInterrupt):
        private.tighten(tmp_path, ["data"])
    monkeypatch.undo()
    private.tighten(tmp_path, ["data"])
    assert modes(tmp_path / "data") == {"d700", "f600"}


def test_a_file_of_somebody_else_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "log").touch()
    (tmp_path / "log").chmod(0o644)
    monkeypatch.setattr(Path, "chmod", refuse)
    monkeypatch.setattr(os, "fchmod", refuse)
    with caplog.at_level(logging.WARNING):
        private.tighten(tmp_path, ["data"])
        os.close(private.opener(str(tmp_path / "log"), os.O_RDWR))
    assert len([each for each in caplog.messages if "may stay open to others" in each]) == 2
