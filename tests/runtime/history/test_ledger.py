"""One writer's books: what a commit says, whom it tells, and what it lets go of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from laminar.errors import EpochNotFound, ReadOnlyDatabase
from laminar.model.state import EngineState, UnfinishedRestore
from laminar.runtime.history.compactor import Compactor
from laminar.runtime.history.ledger import Contents, Ledger
from laminar.store import Range

from ..parts import NO_SPARK, ledger, segment, trace


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Ledger]:
    made = ledger(tmp_path)
    yield made
    made.close()


def test_before_the_first_commit_there_is_nothing(books: Ledger) -> None:
    assert (books.epoch, books.manifest.traces, books.timeline.kept()) == (0, {}, [])


def test_a_commit_says_what_the_parts_have_to_say(books: Ledger) -> None:
    asked = []

    def describe(epoch: int, report: object) -> Contents:
        asked.append((epoch, report))
        return Contents([{"name": "t"}], EngineState(settings={"a": "b"}), {"t": 7})

    books.describe = describe
    held = {"t": trace(segment(1))}
    books.commit(1, held, {"t": 4}, {"rows_in": 1})
    assert asked == [(1, {"rows_in": 1})]
    now = books.manifest
    assert (now.epoch, now.traces, now.offsets, now.watermarks) == (1, held, {"t": 4}, {"t": 7})
    assert (now.catalog, now.state.settings) == ([{"name": "t"}], {"a": "b"})


def test_whoever_waits_for_a_commit_finds_it_done(books: Ledger) -> None:
    seen: list[tuple[str, int]] = []
    books.on_commit += [
        lambda: seen.append(("first", books.epoch)),
        lambda: seen.append(("second", books.epoch)),
    ]
    books.commit(1, {}, {})
    assert seen == [("first", 1), ("second", 1)]


def test_a_revision_keeps_rows_and_positions(books: Ledger) -> None:
    books.commit(1, {"t": trace(segment(1))}, {"t": 4})
    books.recommit()
    assert (books.manifest.epoch, books.manifest.revision) == (1, 1)
    assert (books.manifest.traces, books.manifest.offsets) == ({"t": trace(segment(1))}, {"t": 4})
    books.recommit({"t": trace()})  # the same rows, stored in another way
    assert (books.manifest.revision, books.manifest.traces) == (2, {"t": trace()})


def test_epochs_that_somebody_needs_are_kept(books: Ledger) -> None:
    books.timeline.retained = 1
    books.commit(1, {}, {})
    asked: list[int] = []

    def pinned(epoch: int) -> frozenset[int]:
        asked.append(epoch)
        return frozenset()

    books.pins.append(pinned)
    with books.pinning(1):
        for epoch in (2, 3, 4):
            books.commit(epoch, {}, {})
        assert books.timeline.epochs() == (1, 4)
    books.commit(5, {}, {})
    assert books.timeline.epochs() == (5,)
    assert asked == [2, 3, 4, 5]
    with pytest.raises(EpochNotFound):
        books.timeline.get(1)


def test_a_reader_commits_nothing(tmp_path: Path) -> None:
    writer = ledger(tmp_path)
    writer.commit(1, {}, {})
    reader = Ledger(tmp_path, Compactor(NO_SPARK, NO_SPARK), read_only=True)
    with pytest.raises(ReadOnlyDatabase):
        reader.recommit()
    assert reader.epoch == 1
    writer.close()
    reader.close()


def push(books: Ledger, table: str, batches: int) -> None:
    for _ in range(batches):
        books.pending.append(table, pa.table({"a": [1]}))


def test_rows_that_no_replay_asks_for_are_let_go(books: Ledger) -> None:
    push(books, "t", 3)
    push(books, "s", 1)
    books.wal.begin(1, [Range("t", 0, 1), Range("s", 0, 1)])
    books.wal.begin(2, [Range("t", 1, 2)])
    books.wal.begin(3, [Range("t", 2, 3)])
    books.forget_through(2, {"s": object()})  # s has a connector: its offsets are no numbers here
    assert [each.seq for each in books.pending.after("t", 0)] == [3]
    assert [each.seq for each in books.pending.after("s", 0)] == [1]
    assert [each.epoch for each in books.wal.open_after(2)] == [3]


def test_what_a_restore_has_left_to_do_is_done_once(books: Ledger) -> None:
    push(books, "t", 3)
    # When the checkpoint was made, the first batch was read, the second waited.
    left = UnfinishedRestore(checkpoint=1, pushed={"t": 2}, last={"t": 3})
    books.describe = lambda *_: Contents((), EngineState(restored=left), {})
    books.commit(1, {}, {"t": 1})
    books.wal.begin(2, [Range("t", 1, 2)])
    books.finish_restore()
    assert [each.seq for each in books.pending.after("t", 0)] == [2]
    assert books.wal.open_after(1) == []  # it stands on a history that is gone
    books.pending.append("t", pa.table({"a": [1]}))
    assert books.pending.newest("t") == 4  # no number is given out twice
