from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from laminar.errors import NoWatermark
from laminar.mv import MaterializedView, MvRegistry
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.event_time.watermarks import Watermarks
from laminar.runtime.ingest.arriving_rows import (
    BITS,
    as_late,
    largest,
    numbered,
    split_at,
    without_part,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def watching(idle_timeout_ms: int | None = None) -> Watermarks:
    registry = MvRegistry()
    for name in ("s", "u", "names"):
        registry.register_base_table(name)
    registry.register(MaterializedView("v", "", ("s", "names")))
    registry.register(MaterializedView("w", "", ("v", "u")))
    marks = Watermarks(registry, idle_timeout_ms)
    for name, time in (("s", "ts"), ("u", "ts"), ("names", None)):
        delay = 5 if time else 0
        marks.add(TableDefinition(name, (), event_time=time, delay_us=delay))
    return marks


def test_a_view_follows_the_slowest_input_that_has_a_watermark() -> None:
    marks = watching()
    epoch_time = marks.move({"s": {"0": 100}}, 0)
    assert epoch_time.after == {"s": 95, "v": 95}
    with marks.kept(1, {}):
        pass
    assert marks.move({"u": {"0": 60}}, 0).after["w"] == 55


def test_the_slowest_part_holds_a_source_back() -> None:
    marks = watching()
    marks.move({"s": {"p": 100, "q": 50}}, 0)
    with marks.kept(1, {}):
        pass
    assert marks.current["s"] == 45
    marks.move({"s": {"p": 200}}, 0)
    with marks.kept(1, {}):
        pass
    assert marks.current["s"] == 45
    # After a restart the silent part is not forgotten.
    again = watching()
    again.restore(marks.current, {}, marks.parts, 0)
    assert again.move({"s": {"p": 300}}, 0).after["s"] == 45
    assert again.move({"s": {"q": 290}}, 0).after["s"] == 285


def test_a_silent_part_is_left_out_after_a_while() -> None:
    marks = watching(idle_timeout_ms=1000)
    marks.move({"s": {"p": 100, "q": 50}}, 0)
    with marks.kept(1, {}):
        pass
    marks.move({"s": {"p": 200}}, 900)
    with marks.kept(1, {}):
        pass
    assert not marks.is_pending(950)
    assert marks.is_pending(1001)
    assert marks.move({}, 1001).after["s"] == 195


def test_a_failed_epoch_moves_nothing() -> None:
    marks = watching()
    marks.move({"s": {"0": 100}}, 0)
    with marks.kept(1, {}):
        pass
    marks.advance("s", 500)
    marks.move({"s": {"0": 300}}, 0)
    with pytest.raises(RuntimeError), marks.kept(1, {}):
        raise RuntimeError
    assert marks.current["s"] == 95
    assert marks.is_pending(0)
    assert marks.move({"s": {"0": 101}}, 0).after["s"] == 500
    with pytest.raises(NoWatermark):
        marks.advance("names", 1)
    with pytest.raises(NoWatermark):
        marks.advance("v", 1)


def times(*seconds: float | None) -> pa.Array:
    moments = [None if s is None else START + timedelta(seconds=s) for s in seconds]
    return pa.array(moments, pa.timestamp("us", tz="UTC"))


def test_parts_are_named_in_a_column_of_their_own() -> None:
    rows = pa.table({"ts": times(1, 3, 2, None), "__partition": ["a", "a", "b", "c"]})
    base = int(START.timestamp() * 1_000_000)
    assert largest(rows, "ts") == {"a": base + 3_000_000, "b": base + 2_000_000}
    assert without_part(rows).column_names == ["ts"]
    assert largest(without_part(rows), "ts") == {"0": base + 3_000_000}
    assert largest(pa.table({"ts": times(None)}), "ts") == {}


def test_rows_far_ahead_stay_out() -> None:
    rows = pa.table({"ts": times(1, 50, None), "x": [1, 2, 3]})
    limit = int(START.timestamp() * 1_000_000) + 10_000_000
    kept, ahead = split_at(rows, "ts", limit)
    assert kept.column("x").to_pylist() == [1, 3]
    assert ahead is not None
    batch = as_late("s", "ts", ahead, 7, 10)
    assert (batch.count, batch.rows.column("reason").to_pylist()) == (1, ["future"])
    assert '"x": 2' in batch.rows.column("row").to_pylist()[0]
    assert split_at(kept, "ts", limit) == (kept, None)


def test_rows_are_numbered_as_they_come() -> None:
    pushed = pa.table({"x": [1, 2, 3], "__arrival": [None, 7, None], "__weight": [1, -1, -1]})
    found = numbered(pushed.set_column(1, "__arrival", pa.array([None, 7, None], pa.int64())), 2)
    # What is taken back keeps the number it was given, even none.
    assert found.column("__arrival").to_pylist() == [2 << BITS, 7, None]
    read = numbered(pa.table({"x": [5, 6]}), 3)
    assert read.column("__arrival").to_pylist() == [3 << BITS, (3 << BITS) + 1]
