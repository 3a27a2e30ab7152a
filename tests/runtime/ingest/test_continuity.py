"""Ranges follow each other, and offsets are JSON values that say so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.errors import BadOffset, SourceGap
from laminar.model.row_counts import RowCounts, Skipped, with_dropped
from laminar.runtime.ingest.continuity import checked_offset, require_continuous, same_offset
from laminar.runtime.ingest.read_range import RangeNote, joined
from laminar.store import Range

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=2), each, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("start", "committed"), [(10, 20), (30, 20), (None, 5), (0, None), (1, True)]
)
def test_a_range_that_does_not_follow_is_refused(start: Any, committed: Any) -> None:
    offsets = {} if committed is None else {"s": committed}
    with pytest.raises(SourceGap, match="LMR-8010") as caught:
        require_continuous(7, [Range("s", start, 40)], offsets, {})
    assert (caught.value.source, caught.value.epoch) == ("s", 7)
    assert (caught.value.start, caught.value.committed) == (start, committed)


def test_what_was_dropped_between_two_ranges_is_said_and_follows_itself() -> None:
    taken, offsets = [Range("s", 30, 40)], {"s": 20}
    require_continuous(7, taken, offsets, {"s": Skipped(20, 10)})
    with pytest.raises(SourceGap):
        require_continuous(7, taken, offsets, {"s": Skipped(25, 5)})
    with pytest.raises(SourceGap):  # a source that drops does not go back either
        require_continuous(7, [Range("s", 10, 40)], offsets, {}, {"s"})
    require_continuous(7, taken, offsets, None, {"s"})  # logged before this was said


@given(JSON, JSON)
def test_offsets_are_the_same_if_their_json_is(one: Any, other: Any) -> None:
    assert same_offset(one, json.loads(json.dumps(one)))
    if one != other:
        assert not same_offset(one, other)


@given(JSON)
def test_an_offset_is_what_the_log_will_say(end: Any) -> None:
    found = checked_offset("s", None, end)
    assert (found is None) == (end is None)
    assert same_offset(found, end)
    assert checked_offset("s", end, end) is None  # nothing new


class Odd:
    def __hash__(self) -> int:
        raise TypeError("unhashable")


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (None, float("nan")),
        (None, {"a": float("inf")}),
        (None, {1, 2}),
        (None, b"x"),
        (None, object()),
        (None, Odd()),
        (None, {(1, 2): 3}),
        (5, 4),
        (5.5, 5),
        (0, -1),
    ],
)
def test_an_offset_at_which_nobody_can_be_is_refused(start: Any, end: Any) -> None:
    with pytest.raises(BadOffset, match="LMR-8011"):
        checked_offset("s", start, end)


def test_an_offset_that_json_writes_otherwise_is_taken_as_it_is_written() -> None:
    assert checked_offset("s", None, (1, (2, 3))) == [1, [2, 3]]
    assert checked_offset("s", None, {1: "a"}) == {"1": "a"}
    assert checked_offset("s", [1, 2], (1, 2)) is None
    recursive: list[Any] = []
    recursive.append(recursive)
    with pytest.raises(BadOffset):
        checked_offset("s", None, recursive)


def test_counts_add_up_and_add() -> None:
    note = RangeNote({"0": 5}, read=10, unused=3, refused=2, dropped=4)
    found = note.counted(stored=6, late=1)
    assert found == RowCounts(16, 9, 4, 2, 1)
    assert found.add_up
    assert (found + found).add_up
    assert with_dropped(found, Skipped(1, 9)) == RowCounts(21, 9, 9, 2, 1)
    assert RangeNote.from_json(json.loads(json.dumps(note.to_json())), 7) == note
    assert RangeNote.from_json({"0": 5}, 7) == RangeNote({"0": 5}, 7)
    both = joined([note, RangeNote({"0": 4, "1": 8}, 1)])
    assert (both.marks, both.read) == ({"0": 5, "1": 8}, 11)
