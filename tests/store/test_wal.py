"""The log of epochs: durable before the work, the last word counts, damage is told from a crash."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.errors import StoreUnwritable, UnsupportedFormat
from laminar.store import EpochLog, Range, durable_files
from laminar.store import wal as module
from laminar.store.wal import WAL
from laminar.testing.crashes import Crash, crash_at


def epochs(log: EpochLog, after: int = 0) -> list[int]:
    return [each.epoch for each in log.open_after(after)]


def path_of(root: Path) -> Path:
    return root / WAL / "epochs.log"


def test_what_began_is_there_after_opening_again(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    log.begin(1, [Range("t", 0, 3)], 17, {"t": 5})
    log.begin(2, [Range("t", 3, 4), Range("s", None, {"a": [1, 2]})])
    again = EpochLog(tmp_path)
    first, second = again.open_after(0)
    assert (first.ranges, first.now_ms, first.said) == ((Range("t", 0, 3),), 17, {"t": 5})
    assert second.ranges[1] == Range("s", None, {"a": [1, 2]})
    assert epochs(again, 1) == [2]
    assert again.last() == 2
    assert again.damaged == ()


def test_the_last_word_about_an_epoch_counts(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    log.begin(1, [Range("t", 0, 1)])
    log.begin(2, [Range("t", 1, 2)])
    log.begin(3, [Range("t", 2, 3)])
    log.withdraw(2)
    assert epochs(EpochLog(tmp_path)) == [1]
    log.begin(2, [Range("t", 1, 9)])
    for each in (log, EpochLog(tmp_path)):
        assert [entry.ranges[0].end for entry in each.open_after(1)] == [9]
        # An epoch after a gap belongs to a history that was withdrawn.
        assert epochs(each, 2) == []


def test_a_line_cut_short_is_no_damage_and_never_in_the_way(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    log.begin(1, [Range("t", 0, 1)])
    whole = path_of(tmp_path).read_bytes()
    log.begin(2, [Range("t", 1, 2)])
    both = path_of(tmp_path).read_bytes()
    for size in range(len(whole), len(both)):
        path_of(tmp_path).write_bytes(both[:size])
        again = EpochLog(tmp_path)
        assert (epochs(again), again.damaged) == ([1], ())
        again.begin(2, [Range("t", 1, 7)])
        assert [e.ranges[0].end for e in EpochLog(tmp_path).open_after(0)] == [1, 7]


@given(st.integers(0, 2**16), st.integers(1, 255))
def test_a_changed_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, at: int, mask: int
) -> None:
    root = tmp_path_factory.mktemp("wal")
    log = EpochLog(root)
    for epoch in (1, 2, 3):
        log.begin(epoch, [Range("t", epoch - 1, epoch)])
    data = bytearray(path_of(root).read_bytes())
    data[at % len(data)] ^= mask
    path_of(root).write_bytes(data)
    again = EpochLog(root)
    kept = {entry.epoch: entry for entry in log.open_after(0)}
    for entry in again.open_after(0):
        assert kept[entry.epoch] == entry
    assert again.damaged


def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EpochLog(tmp_path)
    log.begin(1, [Range("t", 0, 1)])

    def full(point: str) -> None:
        if point == "wal.after_write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", full)
        with pytest.raises(StoreUnwritable, match="LMR-6006"):
            log.begin(2, [Range("t", 1, 2)])
        log.withdraw(1)
    assert epochs(log) == []
    assert epochs(EpochLog(tmp_path)) == [1]
    log.begin(1, [Range("t", 0, 5)])
    assert [e.ranges[0].end for e in EpochLog(tmp_path).open_after(0)] == [5]


def test_a_record_voids_those_of_later_epochs_also_if_that_could_not_be_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two epochs were in flight; both failed, and so did the record that says so."""
    log = EpochLog(tmp_path)
    log.begin(1, [Range("t", 0, 10)])
    log.begin(2, [Range("t", 10, 20)])

    def refuse(_point: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", refuse)
        log.withdraw(1)
    log.begin(1, [Range("t", 0, 20)])
    for each in (log, EpochLog(tmp_path)):
        assert [(e.epoch, e.ranges[0].end) for e in each.open_after(0)] == [(1, 20)]


class Disk:
    """The file of a log, on a disk that is made to fail."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.most = 10**9
        """Bytes that one call of write takes."""
        self.room = 10**9
        self.can_cut = True

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = bytes(data)[: min(self.most, self.room)]
        self.room -= len(part)
        return int(self.file.write(part))

    def truncate(self, size: int) -> int:
        if not self.can_cut:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return int(self.file.truncate(size))

    def fileno(self) -> int:
        return int(self.file.fileno())


def on_a_disk(log: EpochLog) -> Disk:
    disk = Disk(log._opened())
    log._file = disk  # type: ignore[assignment]
    return disk


def test_a_record_is_written_whole_however_little_a_write_takes(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    on_a_disk(log).most = 7
    log.begin(1, [Range("t", 0, 1)])
    log.begin(2, [Range("t", 1, 2)])
    again = EpochLog(tmp_path)
    assert (epochs(again), again.damaged) == ([1, 2], ())


@pytest.mark.parametrize("can_cut", [True, False])
def test_half_a_record_never_stands_in_front_of_the_next(tmp_path: Path, *, can_cut: bool) -> None:
    log = EpochLog(tmp_path)
    log.begin(1, [Range("t", 0, 1)])
    disk = on_a_disk(log)
    disk.room, disk.can_cut = 20, can_cut
    with pytest.raises(StoreUnwritable):
        log.begin(2, [Range("t", 1, 2)])
    disk.room = 10**9
    if not can_cut:
        with pytest.raises(StoreUnwritable):  # it says so, rather than to glue two records
            log.begin(2, [Range("t", 1, 2)])
    disk.can_cut = True
    log.begin(2, [Range("t", 1, 3)])
    again = EpochLog(tmp_path)
    assert [e.ranges[0].end for e in again.open_after(0)] == [1, 3]
    assert again.damaged == ()


def test_what_is_forgotten_leaves_the_file_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SLACK", 4)
    log = EpochLog(tmp_path)
    sizes = []
    for epoch in range(1, 40):
        log.begin(epoch, [Range("t", epoch - 1, epoch)])
        assert [e.epoch for e in log.forget_through(epoch - 2)] == (
            [epoch - 2] if epoch > 2 else []
        )
        sizes.append(path_of(tmp_path).stat().st_size)
    assert max(sizes) < 12 * sizes[0]
    assert epochs(EpochLog(tmp_path), 37) == [38, 39]


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "FORMAT_VERSION", 2)
        EpochLog(tmp_path).begin(1, [])
    with pytest.raises(UnsupportedFormat, match="LMR-6002"):
        EpochLog(tmp_path)


def test_a_crash_at_any_point_leaves_records_that_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(root: Path) -> None:
        log = EpochLog(root)
        log.begin(1, [Range("t", 0, 1)])
        log.begin(2, [Range("t", 1, 2)])
        log.mend()

    seen: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", seen.append)
        write(tmp_path / "whole")
    assert {"wal.after_create", "wal.before_rewrite", "wal.after_rewrite"} <= set(seen)
    for point in dict.fromkeys(seen):
        root = tmp_path / point
        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", crash_at(point))
            with pytest.raises(Crash):
                write(root)
        again = EpochLog(root)
        assert again.damaged == ()
        assert epochs(again) in ([], [1], [1, 2])
        again.begin(3, [])
        assert EpochLog(root).last() == 3
