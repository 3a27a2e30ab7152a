"""What is done to rows as they come in: numbers, times, parts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.model.trace import ARRIVAL, PARTITION, WEIGHT
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.ingest.arriving_rows import (
    BITS,
    RowTimes,
    as_late,
    is_live,
    largest_of_files,
    numbered,
    pending_number,
    split_at,
)
from laminar.testing import ManualClock

from .parts import TIMED, Numbers, at_seconds, numbers


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 9))
def test_rows_of_a_batch_are_numbered_alike_in_one_piece_and_in_many(
    sizes: list[int], batch: int
) -> None:
    whole = numbers(0, sum(sizes))
    at, pieces = 0, []
    for size in sizes:
        pieces.append(numbered(whole.slice(at, size), batch, at))
        at += size
    assert pa.concat_tables(pieces).equals(numbered(whole, batch))
    assert numbered(whole, batch)[ARRIVAL].to_pylist() == [(batch << BITS) + n for n in range(at)]


def test_later_batches_have_higher_numbers_however_many_rows_there_are() -> None:
    assert numbered(numbers(0, 1), 8)[ARRIVAL][0].as_py() > ((7 << BITS) + (1 << BITS) - 1)


def test_a_number_stands_before_the_weight_and_what_has_one_keeps_it() -> None:
    rows = numbers(0, 2).append_column(WEIGHT, pa.array([1, -1], pa.int64()))
    assert numbered(rows, 1).column_names == ["n", ARRIVAL, WEIGHT]
    given_numbers = rows.add_column(1, ARRIVAL, pa.array([None, None], pa.int64()))
    # A deletion without a number stays so: it takes back any row of its value.
    assert numbered(given_numbers, 1)[ARRIVAL].to_pylist() == [1 << BITS, None]


def test_the_number_of_a_waiting_row_is_that_of_its_file_and_place() -> None:
    """The statement that Spark reads pending files with says what `numbered` does."""
    text = pending_number()
    assert f"SHIFTLEFT(CAST(SUBSTRING(_metadata.file_name, 1, 12) AS BIGINT), {BITS})" in text
    assert text.startswith(f"COALESCE({ARRIVAL}, IF({WEIGHT} > 0, ")
    assert "+ _metadata.row_index, NULL)" in text


def times(*, is_live: bool = True, column: str | None = "ts") -> RowTimes:
    clock = ManualClock(datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC))
    return RowTimes(column, is_live, TimeSettings(clock=clock, future_ms=5_000))


def test_the_future_begins_behind_the_clock_of_now_or_of_the_epoch() -> None:
    rows = at_seconds(14, 15, 16)
    kept, ahead = times().split(rows)  # it is 10, and 5 ahead is allowed
    assert kept["n"].to_pylist() == [0, 1]
    assert ahead is not None
    assert ahead["n"].to_pylist() == [2]
    kept, ahead = times().split(rows, now_ms=9_000)
    assert ahead is not None
    assert kept["n"].to_pylist() == [0]
    assert times().split(rows, now_ms=11_000) == (rows, None)


def test_a_limit_that_is_changed_counts_from_then_on() -> None:
    made = times()
    made.settings.future_ms = 0
    assert made.split(at_seconds(10, 11))[0]["n"].to_pylist() == [0]


@pytest.mark.parametrize("made", [times(is_live=False), times(column=None)])
def test_without_a_time_or_a_live_source_there_is_no_future(made: RowTimes) -> None:
    rows = at_seconds(1, 99_999)
    assert made.split(rows) == (rows, None)


def test_rows_in_the_future_do_not_move_time() -> None:
    assert times().largest(at_seconds(3, 12, 99)) == {"0": 12_000_000}
    assert times(is_live=False).largest(at_seconds(3, 99)) == {"0": 99_000_000}
    assert times(column=None).largest(at_seconds(3)) == {}
    assert times().largest(at_seconds(None)) == {}


def test_pushed_rows_and_those_of_live_sources_can_lie_in_the_future() -> None:
    assert is_live(None)
    assert is_live(Numbers(live=True))
    assert not is_live(Numbers())
    assert RowTimes.of(TIMED, Numbers(), TimeSettings()).columns == ("ts",)


def test_each_part_has_its_own_time_in_files_too(tmp_path: Path) -> None:
    for number, (seconds, parts) in enumerate([((1, 9), ("a", "b")), ((5, 2), ("a", None))]):
        rows = at_seconds(*seconds, **{PARTITION: list(parts)})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    paths = sorted(tmp_path.iterdir())
    assert largest_of_files(paths, "ts") == {"a": 5_000_000, "b": 9_000_000}
    pq.write_table(at_seconds(7), tmp_path / "whole.parquet")
    assert largest_of_files([tmp_path / "whole.parquet"], "ts") == {}


def test_rows_that_stay_out_are_told_without_what_only_the_engine_sees() -> None:
    _, ahead = split_at(numbered(at_seconds(1, 50, 60), 1), "ts", 10_000_000)
    assert ahead is not None
    late = as_late("s", "ts", ahead, epoch=4, limit=1)
    assert late.count == 2
    (row,) = late.rows.to_pylist()
    assert (row["epoch"], row["relation"], row["reason"], row[WEIGHT]) == (4, "s", "future", 1)
    assert ARRIVAL not in row["row"]
    assert '"n": 1' in row["row"]
