from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laminar.errors import WriterBusy
from laminar.errors.store import SegmentCorrupt, SegmentMissing
from laminar.store import PendingLog, durable_files
from laminar.testing.crashes import Crash, crash_at

PLACED = ("pending.after_rename", "pending.after_sync")
"""Where a batch has its name."""


def rows(*values: int) -> pa.Table:
    return pa.table({"a": list(values)})


def seqs(log: PendingLog, table: str, after: int = 0) -> list[int]:
    return [batch.seq for batch in log.after(table, after)]


def test_batches_come_back_in_order(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    assert [log.append("t", rows(*range(n))) for n in (1, 2, 3)] == [1, 2, 3]
    assert [(batch.seq, batch.rows) for batch in log.after("t", 1)] == [(2, 2), (3, 3)]
    assert pq.read_table(log.after("t", 2)[0].path).to_pydict() == {"a": [0, 1, 2]}


def test_tables_count_for_themselves(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    assert [log.append(table, rows(1)) for table in ("t", "T", "`t`", "t")] == [1, 1, 1, 2]
    assert seqs(log, "t") == [1, 2]
    assert seqs(log, "unknown") == []


def test_batches_survive_a_restart(tmp_path: Path) -> None:
    first = PendingLog(tmp_path)
    for n in range(12):
        first.append("t", rows(*range(n + 1)))
    again = PendingLog(tmp_path)
    assert again.after("t", 0) == first.after("t", 0)
    assert again.append("t", rows(1)) == 13


def test_dropped_batches_are_gone(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    for _ in range(4):
        log.append("t", rows(1))
    log.drop_through("t", 2)
    assert seqs(log, "t") == [3, 4]
    assert seqs(PendingLog(tmp_path), "t") == [3, 4]
    assert log.append("t", rows(1)) == 5


def test_no_number_is_given_out_twice_even_when_no_file_is_left(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    log.append("t", rows(1))
    log.append("t", rows(1))
    log.drop_through("t", 2)
    assert log.append("t", rows(1)) == 3
    log.drop_through("t", 3)
    assert PendingLog(tmp_path, {"t": 3}).append("t", rows(1)) == 4


def test_a_crash_keeps_a_batch_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PendingLog(tmp_path).append("t", rows(1))
    seen: list[str] = []
    monkeypatch.setattr(durable_files, "failpoint", seen.append)
    PendingLog(tmp_path / "other").append("t", rows(1))
    assert len(seen) == 5

    for point in seen:
        before = seqs(PendingLog(tmp_path), "t")
        monkeypatch.setattr(durable_files, "failpoint", crash_at(point))
        with pytest.raises(Crash):
            PendingLog(tmp_path).append("t", rows(1))
        kept = seqs(PendingLog(tmp_path), "t")
        assert kept == before + ([len(before) + 1] if point in PLACED else [])


def test_a_reader_never_sees_a_gap(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    gaps: list[list[int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = seqs(log, "t")
            if found != list(range(1, len(found) + 1)):
                gaps.append(found)

    def push() -> None:
        for _ in range(10):
            log.append("t", rows(1))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=push) for _ in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert gaps == []
    assert seqs(log, "t") == list(range(1, 41))


def test_a_damaged_batch_is_reported(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    log.append("t", rows(1))
    log.append("t", rows(2))
    first, second = log.after("t", 0)
    first.path.write_bytes(b"damaged")
    (batch, _) = PendingLog(tmp_path).between("t", 0, 2)
    with pytest.raises(SegmentCorrupt):
        batch.read()
    with pytest.raises(SegmentCorrupt):
        PendingLog(tmp_path).verify([batch])
    first.path.unlink()
    with pytest.raises(SegmentMissing, match=f"{1:012d}"):
        PendingLog(tmp_path).between("t", 0, 2)
    second.path.unlink()
    with pytest.raises(SegmentMissing, match=f"{2:012d}"):
        PendingLog(tmp_path).between("t", 0, 2)


def test_numbers_that_were_taken_back_are_no_gap(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    for _ in range(4):
        log.append("t", rows(1))
    log.remove_between("t", 3, 4)
    assert log.append("t", rows(5)) == 5
    again = PendingLog(tmp_path)
    assert [each.seq for each in again.between("t", 0, 5)] == [1, 2, 5]
    again.drop_through("t", 5)
    assert again.append("t", rows(6)) == 6
    assert [each.seq for each in PendingLog(tmp_path).between("t", 5, 6)] == [6]


def test_the_first_format_is_read(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    log.append("t", rows(1, 2))
    path = log.after("t", 0)[0].path
    path.rename(path.with_name(f"{1:012d}.parquet"))
    (batch,) = PendingLog(tmp_path).between("t", 0, 1)
    assert (batch.rows, batch.read()) == (2, rows(1, 2))


def test_a_changed_byte_of_pushed_rows_is_noticed(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(100)), "s": [f"text {n}" for n in range(20)] * 5})
    PendingLog(tmp_path).append("t", table)
    (batch,) = PendingLog(tmp_path).after("t", 0)
    whole = batch.path.read_bytes()
    assert batch.read() == table
    for at in range(0, len(whole), 3):
        batch.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(SegmentCorrupt, match="checksum"):
            batch.read()


def test_rows_wait_until_what_is_there_has_been_replaced(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    with log.held(0), pytest.raises(WriterBusy, match="a restore"), log.pushing(0.01):
        pass
    with log.pushing(0), pytest.raises(WriterBusy, match="pushing rows"), log.held(0.01):
        pass
    pushed = threading.Event()

    def push() -> None:
        with log.pushing(60):
            pushed.set()

    other = threading.Thread(target=push)
    with log.held(0):
        other.start()
        assert not pushed.wait(0.05)
    other.join(60)
    assert pushed.is_set()
    with log.held(0), pytest.raises(WriterBusy), log.held(0):  # one restore at a time
        pass


def test_what_is_known_of_a_batch_goes_with_it(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    for _ in range(5):
        log.append("t", rows(1))
    again = PendingLog(tmp_path)
    again.verify(again.after("t", 0))
    again.drop_through("t", 3)
    again.remove_between("t", 4, 4)
    assert {each.seq for each in again._verified} == {5}
    log.drop_through("t", 5)
    assert not log._verified
    again.reload({})
    assert not again._verified
