"""Sources that keep only what their views use, decided from real definitions without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from laminar.errors import NotRetained
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.pruning import UNREAD, SourcePruning, keeps_all

from .parts import NUMBERS, Numbers, add_view, defined

USED = TableDefinition(
    "s",
    (("k", "bigint", False), ("a", "bigint", True), ("b", "bigint", True), ("c", "string", True)),
    is_source=True,
    connector="numbers",
    options={"retain": "used"},
)
ROWS = pa.table({"k": [1, 2, 3], "a": [10, 20, 30], "b": [7, 8, 9], "c": ["x", "y", "z"]})


def pruning(known: Defined, **offsets: Any) -> SourcePruning:
    made = SourcePruning(known, lambda: offsets)
    made.follow()
    return made


def test_a_table_keeps_all_unless_it_says_otherwise() -> None:
    made = pruning(defined(NUMBERS, views={"v": "SELECT n FROM s"}))
    assert keeps_all(NUMBERS)
    assert not keeps_all(USED)
    assert made.prefix(NUMBERS) is None
    assert made.stage(NUMBERS) is None
    assert made.stages == {}
    made.refuse_reading("s")


def test_what_the_views_use_together_is_kept() -> None:
    views = {"v": "SELECT k, a FROM s WHERE a > 15", "w": "SELECT b FROM s WHERE k = 1"}
    known = defined(USED, views=views)
    prefix = pruning(known).prefix(USED)
    assert prefix is not None
    assert prefix.columns == ("k", "a", "b")
    assert prefix.pruned == ("c",)
    assert str(prefix.test) == "(a > 15) OR (k = 1)"


def test_rows_that_are_kept_are_counted() -> None:
    made = pruning(defined(USED, views={"v": "SELECT k FROM s WHERE a > 15"}))
    stage = made.stage(USED)
    assert stage is not None
    assert stage(ROWS).to_pydict() == {"k": [2, 3], "a": [20, 30]}
    assert (made.stages["s"].counters.rows_in, made.stages["s"].counters.rows_kept) == (3, 2)
    with pytest.raises(NotRetained):
        made.refuse_reading("s")


def test_the_time_of_a_row_is_always_kept() -> None:
    timed = replace(USED, event_time="b")
    prefix = pruning(defined(timed, views={"v": "SELECT k FROM s"})).prefix(timed)
    assert prefix is not None
    assert prefix.columns == ("k", "b")


def test_a_source_that_no_view_reads_waits_for_the_first() -> None:
    known = defined(USED)
    made = pruning(known)
    assert made.is_unread("s")
    assert made.prefix(USED) is UNREAD
    add_view(known, "v", "SELECT a FROM s")
    assert made.is_unread("s")  # not committed yet
    assert made.follow() == ["s"]
    assert not made.is_unread("s")


def test_a_source_of_which_something_else_is_kept_is_to_be_read_again() -> None:
    known = defined(USED, views={"v": "SELECT a FROM s"})
    made = pruning(known)
    assert made.follow() == []
    add_view(known, "w", "SELECT a, b FROM s")
    assert made.follow() == ["s"]  # more
    known.catalog.remove("w")
    assert made.follow() == ["s"]  # less
    made.forget()
    assert made.follow() == []  # of definitions that are new nothing was kept before


def test_a_view_that_needs_more_is_refused_once_rows_were_taken() -> None:
    known = defined(USED, views={"v": "SELECT a FROM s WHERE a > 15"})
    fresh, begun = pruning(known), pruning(known, s=3)
    add_view(known, "w", "SELECT b FROM s WHERE a > 15")
    fresh.require_kept()
    with pytest.raises(NotRetained, match="columns b are wanted"):
        begun.require_kept()
    known.catalog.remove("w")
    add_view(known, "w", "SELECT a FROM s WHERE a > 15")
    begun.require_kept()
    known.catalog.remove("w")
    add_view(known, "w", "SELECT a FROM s")
    with pytest.raises(NotRetained, match="other rows are wanted"):
        begun.require_kept()


@pytest.mark.parametrize(
    ("changed", "live", "is_pruned"),
    [
        ({}, True, True),
        ({"event_time": "a"}, False, True),
        ({"event_time": "a"}, True, False),  # the newest row may turn out to lie in the future
        ({"connector": None}, True, False),  # pushed rows are a delta already
        ({"primary_key": ()}, True, False),
    ],
)
def test_of_a_key_the_newest_row_of_a_poll_is_enough(
    changed: dict[str, Any], live: bool, is_pruned: bool
) -> None:
    table = replace(USED, options={}, primary_key=("k",))
    table = replace(table, **changed)
    known = defined(table)
    if table.connector is not None:
        known.sources["s"] = Numbers(live=live)
    stage = pruning(known).stage(table)
    assert (stage is not None) == is_pruned
    if stage is not None:
        twice = pa.concat_tables([ROWS, ROWS.slice(1, 1)])
        assert stage(twice)["k"].to_pylist() == [1, 3, 2]
