from __future__ import annotations

import json
import subprocess
import sys

import pytest

from laminar.errors.store import EpochNotFound, UnsupportedFormat
from laminar.model.state import EngineState
from laminar.model.trace import FORMAT_VERSION, Manifest, Segment, Trace


def segment(lo: int, hi: int | None = None, *, rows: int = 1, insert_only: bool = True) -> Segment:
    return Segment((f"data/r/{lo}.parquet",), lo, hi or lo, rows, 10 * rows, insert_only, ("c",))


TRACE = Trace("a INT, __weight BIGINT", (segment(1, 4, rows=5), segment(6), segment(7, 9, rows=2)))


def test_a_trace_adds_up_its_segments() -> None:
    assert TRACE.rows == 8
    assert TRACE.bytes == 80
    assert TRACE.files == ("data/r/1.parquet", "data/r/6.parquet", "data/r/7.parquet")
    assert TRACE.insert_only


def test_one_delete_ends_insert_only() -> None:
    assert not TRACE.append(segment(10, insert_only=False)).insert_only
    assert Trace("a INT").insert_only


def test_appending_leaves_the_old_trace_alone() -> None:
    longer = TRACE.append(segment(10))
    assert len(TRACE.segments) == 3
    assert longer.segments[:3] == TRACE.segments


@pytest.mark.parametrize("newer", [segment(9), segment(1), segment(8, 12)])
def test_epochs_only_ascend(newer: Segment) -> None:
    with pytest.raises(ValueError, match="do not follow"):
        TRACE.append(newer)


def test_a_trace_is_cut_where_an_older_one_ended() -> None:
    first, second, third = TRACE.segments
    longer = TRACE.append(segment(10)).append(segment(12))
    assert longer.split(TRACE) == (TRACE.segments, longer.segments[3:])
    assert longer.split(longer) == (longer.segments, ())
    assert longer.split(Trace("a INT")) == ((), longer.segments)
    merged = longer.replace((first, second), segment(first.lo, second.hi, rows=1))
    assert merged.split(TRACE) == (merged.segments[:2], longer.segments[3:])
    # What was merged across the cut, or built anew, cannot be told apart.
    across = longer.replace(longer.segments[2:4], segment(third.lo, 10))
    assert across.split(TRACE) is None
    assert Trace("a INT", (segment(12),)).split(TRACE) is None
    assert Trace("a INT", (first, second)).split(TRACE) is None
    anew = segment(first.lo, first.hi, rows=77)
    assert Trace("a INT", (anew, second, third)).split(TRACE) is None


@pytest.mark.parametrize(("epoch", "older"), [(0, 0), (4, 1), (5, 1), (6, 2), (9, 3), (11, 3)])
def test_a_trace_is_cut_at_an_epoch(epoch: int, older: int) -> None:
    assert TRACE.cut(epoch) == (TRACE.segments[:older], TRACE.segments[older:])


@pytest.mark.parametrize("epoch", [1, 3, 7, 8])
def test_an_epoch_that_was_merged_away_is_no_place_to_cut(epoch: int) -> None:
    with pytest.raises(EpochNotFound):
        TRACE.cut(epoch)


def test_neighbours_are_replaced_in_place() -> None:
    merged = segment(6, 9, rows=3)
    assert TRACE.replace(TRACE.segments[1:], merged).segments == (TRACE.segments[0], merged)
    assert TRACE.replace(TRACE.segments[:2], None).segments == TRACE.segments[2:]


@pytest.mark.parametrize("olds", [(), (segment(99),), (TRACE.segments[0], TRACE.segments[2])])
def test_only_neighbours_can_be_replaced(olds: tuple[Segment, ...]) -> None:
    with pytest.raises(ValueError, match="to replace"):
        TRACE.replace(olds, segment(1, 9))


def test_a_segment_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot cover"):
        Segment((), 3, 2, 0, 0, True, ())
    with pytest.raises(ValueError, match="one checksum per file"):
        Segment(("f",), 1, 1, 0, 0, True, ())


MANIFEST = Manifest(
    epoch=9,
    traces={"größe": TRACE, "empty": Trace("a INT, __weight BIGINT")},
    offsets={"files": {"last": "b.json", "parts": [1, 2.5, None, True]}},
    catalog=[{"sql": "CREATE TABLE t (a INT)"}],
    watermarks={"t": -5},
    state=EngineState(behind={"v": 8}, unknown={"of another version": [1]}),
    committed_at="2026-01-01T00:00:00+00:00",
)


def test_a_manifest_survives_text() -> None:
    assert Manifest.from_json(json.loads(json.dumps(MANIFEST.to_json()))) == MANIFEST
    assert MANIFEST.files == set(TRACE.files)


def test_a_newer_format_is_refused_before_anything_else_is_read() -> None:
    with pytest.raises(UnsupportedFormat, match="upgrade Laminar") as caught:
        Manifest.from_json({"format_version": FORMAT_VERSION + 1, "epochs": "renamed"})
    assert caught.value.found == FORMAT_VERSION + 1


def test_the_model_needs_neither_spark_nor_arrow() -> None:
    program = """
import sys, laminar.model.trace
assert not {"pyspark", "pyarrow"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
