from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from laminar.errors.store import StoreUnwritable
from laminar.store import durable_files


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_appears_with_its_bytes_and_no_others(tmp_path: Path) -> None:
    durable_files.write_atomic(tmp_path / "new" / "deep" / "f", b"bytes")
    assert (tmp_path / "new" / "deep" / "f").read_bytes() == b"bytes"
    assert names(tmp_path / "new" / "deep") == {"f"}


def test_a_name_is_never_used_twice(tmp_path: Path) -> None:
    durable_files.write_atomic(tmp_path / "f", b"first")
    with pytest.raises(FileExistsError):
        durable_files.write_atomic(tmp_path / "f", b"second")
    assert (tmp_path / "f").read_bytes() == b"first"
    assert names(tmp_path) == {"f"}


def test_file_systems_without_links_do_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> NoReturn:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", no_links)
    test_a_file_appears_with_its_bytes_and_no_others(tmp_path)
    (tmp_path / "other").mkdir()
    test_a_name_is_never_used_twice(tmp_path / "other")


@pytest.mark.parametrize("failing", ["fsync", "link"])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(StoreUnwritable, match="No space left") as caught:
        durable_files.write_atomic(tmp_path / "f", b"bytes")
    assert caught.value.path == str(tmp_path / "f")
    assert names(tmp_path) == set()


def test_a_content_that_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    durable_files.replace_atomic(tmp_path / "f", b"first")
    durable_files.replace_atomic(tmp_path / "f", b"second")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnwritable, match="No space left"):
        durable_files.replace_atomic(tmp_path / "f", b"third")
    assert (tmp_path / "f").read_bytes() == b"second"
    assert names(tmp_path) == {"f"}


def test_a_name_that_may_not_last_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable_files, "sync_dir", broken)
    with pytest.raises(StoreUnwritable):
        durable_files.write_atomic(tmp_path / "f", b"bytes")
    assert names(tmp_path) == set()


def test_a_root_that_is_a_file_is_said_to_be_unwritable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritable):
        durable_files.write_atomic(tmp_path / "file" / "sub" / "f", b"bytes")


def test_bytes_are_synced_before_they_get_their_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    link, fsync = os.link, os.fsync

    def spied_fsync(handle: int) -> None:
        steps.append("sync folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "sync file")  # noqa: PTH112
        fsync(handle)

    def spied_link(source: Path, target: Path) -> None:
        steps.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", spied_fsync)
    monkeypatch.setattr(os, "link", spied_link)
    durable_files.write_atomic(tmp_path / "f", b"bytes")
    assert steps == ["sync file", "link", "sync folder"]


def test_the_sum_of_a_written_file_is_the_sum_of_its_bytes(tmp_path: Path) -> None:
    file = durable_files.SummedFile(tmp_path / "f")
    for part in (b"one", b"", bytes(3_000_000)):
        file.write(part)
    assert file.tell() == file.size == 3_000_003
    assert file.seal() == durable_files.checksum(tmp_path / "f")
    assert file.closed
