"""What is known of relations in an epoch, from segments alone; nothing is read."""

from __future__ import annotations

import pytest

from laminar.delta.change import State, Version
from laminar.delta.program import Emitted, Mapped
from laminar.model.trace import Segment
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.relations.bindings import Bindings, nothing, with_names
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of

from ..parts import NO_SPARK, catalog, segment

MINUTE = 60_000_000
SCRIPT = """
CREATE SOURCE t (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE MATERIALIZED VIEW fused AS SELECT k, x, ts FROM t WHERE x > 0;
CREATE MATERIALIZED VIEW lazy AS SELECT k, SUM(x) AS x FROM fused GROUP BY k;
CREATE MATERIALIZED VIEW total AS SELECT SUM(x) AS x FROM fused;
CREATE MATERIALIZED VIEW closing AS
  SELECT TUMBLE_END(ts, '1 minute') AS e, COUNT(*) AS n FROM fused
  GROUP BY TUMBLE(ts, '1 minute') EMIT ON WINDOW CLOSE;
"""
CATALOG: Catalog = catalog(SCRIPT)


def bindings(
    epoch_time: EpochTime | None = None, **versions: tuple[list[Segment], list[Segment]]
) -> Bindings:
    """Bindings of which some traces hold segments, before an epoch and added by it."""
    found = versions_of(CATALOG.relations, {})
    for name, (before, delta) in versions.items():
        trace = name.replace("_1_partial", "#1!partial")
        found[trace] = TraceVersions(found[trace].schema, tuple(before), tuple(delta))
    return Bindings(NO_SPARK, NO_SPARK, CATALOG.relations, found, epoch_time=epoch_time)


GONE = segment(2, insert_only=False, units=False)


@pytest.mark.parametrize(
    ("before", "delta", "state"),
    [
        ([], [], State(False, True, True, False, True, True)),
        ([segment(1)], [], State(False, True, True, True, True, True)),
        ([], [segment(1)], State(True, True, True, False, True, True)),
        ([segment(1)], [GONE], State(True, False, True, True, False, True)),
        ([GONE], [segment(3)], State(True, True, False, True, True, False)),
    ],
)
def test_a_fused_view_is_what_its_input_is(
    before: list[Segment], delta: list[Segment], state: State
) -> None:
    found = bindings(t=(before, delta))
    assert found.state("t") == state
    fused = found.state("fused")
    assert (fused.changed, fused.existed) == (state.changed, state.existed)
    if state.changed:
        assert (fused.insert_only, fused.units) == (state.insert_only, state.units)
    assert found.states["fused"] == fused
    assert set(found.states) == set(CATALOG.relations.by_name)
    assert len(found.states) == len(CATALOG.relations.by_name)


def test_groups_that_are_finished_when_read_are_known_by_their_accumulators() -> None:
    found = bindings(lazy_1_partial=([segment(1)], [segment(2, rows=7)]))
    assert found.state("lazy#1") == State(True, True, True, True, True, True)
    assert (found.delta_rows("lazy#1"), found.delta_rows("lazy")) == (7, 7)
    # Without keys there is always a row.
    assert not bindings().state("lazy#1").existed
    assert bindings().state("total#1").existed


def test_how_many_rows_stand_behind_a_relation() -> None:
    found = bindings(
        t=([segment(1, rows=5), segment(2, rows=6)], [segment(3, rows=7)]),
        lazy_1_partial=([segment(1, rows=2)], []),
    )
    assert found.delta_rows("t") == found.delta_rows("fused") == 7
    assert found.held_rows(["t"]) == found.held_rows(["fused"]) == 11
    assert found.held_rows(["fused", "t"]) == 11  # each once
    assert found.held_rows(["lazy"]) == 2


def horizon() -> Emitted:
    found = CATALOG.relations.by_name["closing#2"]
    assert isinstance(found, Emitted)
    return found


@pytest.mark.parametrize(
    ("mark", "times", "bound"),
    [
        (None, (0, 0), None),  # nothing is final yet
        (5 * MINUTE, (7 * MINUTE, 9 * MINUTE), None),  # no row of the epoch is that old
        (5 * MINUTE, (MINUTE, 9 * MINUTE), 6 * MINUTE),
        (5 * MINUTE, None, 6 * MINUTE),  # how old its rows are is not known
    ],
)
def test_rows_of_an_epoch_may_be_late(
    mark: int | None, times: tuple[int, int] | None, bound: int | None
) -> None:
    marks = {} if mark is None else {"closing": mark}
    came = segment(1, spans={} if times is None else {"ts": times})
    found = bindings(EpochTime(marks, marks), t=([], [came]))
    assert found.horizon(horizon().horizon) == bound
    assert found.states.horizon(horizon().horizon) == bound
    assert found.final(horizon().horizon) == (None if mark is None else 6 * MINUTE)


def test_without_rows_nobody_is_late() -> None:
    marks = {"closing": 5 * MINUTE}
    assert bindings(EpochTime(marks, marks)).horizon(horizon().horizon) is None


def test_names_for_the_columns_of_a_plan() -> None:
    fused = CATALOG.relations.by_name["fused"]
    assert isinstance(fused, Mapped)
    assert with_names(fused).columns == ("`k`", "`x`", "`ts`")
    assert nothing(fused) == (
        "SELECT r.*, 1L AS __weight FROM"
        " (SELECT CAST(NULL AS STRUCT<`k` int, `x` int, `ts` int>) AS r) WHERE false"
    )


def test_two_readers_of_one_trace_have_names_of_their_own() -> None:
    found = bindings(t=([segment(1), segment(2)], []))
    one = found.bind_segments("t", (segment(1),), "one")
    other = found.bind_segments("t", (segment(2),), "other")
    assert one != other
    assert found.bind_segments("t", (segment(1),), "one") == one
    assert found.bind_segments("t", (segment(1),), "one", Version.BEFORE) != one
