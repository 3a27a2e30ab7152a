"""What is stored around an epoch, and what statements may rely on because of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.delta.change import State, Version
from laminar.errors import EpochNotFound
from laminar.model.trace import Segment
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of

from ..parts import catalog, segment, trace

SEGMENTS = st.builds(
    lambda insert_only, units, rows: segment(
        1, rows=rows, insert_only=insert_only, units=insert_only and units
    ),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
)


@given(st.lists(SEGMENTS, max_size=3), st.lists(SEGMENTS, max_size=3))
def test_what_statements_may_rely_on(before: list[Segment], delta: list[Segment]) -> None:
    found = TraceVersions("", tuple(before), tuple(delta))
    assert found.segments(Version.BEFORE) == tuple(before)
    assert found.segments(Version.DELTA) == tuple(delta)
    assert found.segments(Version.AFTER) == (*before, *delta)
    assert found.state == State(
        changed=delta != [],
        insert_only=not any(not each.insert_only for each in delta),
        positive=not any(not each.insert_only for each in before),
        existed=before != [],
        units=not any(not each.units for each in delta),
        held_units=not any(not each.units for each in before),
    )
    assert found.has_retractions == any(not each.insert_only for each in (*before, *delta))
    assert found.changed_rows == sum(each.rows for each in delta)


PLAN = catalog(
    """
    CREATE TABLE t (k INT, x INT);
    CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(x) AS x FROM t GROUP BY k;
    CREATE MATERIALIZED VIEW slow AS SELECT k FROM t EMIT PERIODICALLY INTERVAL '1' SECOND;
    """
).relations


def test_every_trace_that_a_graph_may_need() -> None:
    found = versions_of(PLAN, {})
    assert set(found) == {
        *("t", "sums#1", "sums#1!partial", "sums"),
        *("slow#1", "slow", "slow!pending"),
    }
    assert found["t"].schema.endswith("__arrival BIGINT, __weight BIGINT")  # tables are numbered
    assert "__arrival" not in found["slow"].schema
    assert found["slow!pending"].schema == found["slow"].schema
    assert found["sums#1!partial"].schema == PLAN.by_name["sums#1"].partial_ddl  # type: ignore[union-attr]


A, B, C = segment(1, 2), segment(3), segment(4)


@pytest.mark.parametrize(
    ("at", "until", "before", "delta"),
    [
        (None, None, (A, B, C), ()),
        (4, None, (A, B, C), ()),
        (3, None, (A, B), ()),
        (3, 4, (A, B), (C,)),
        (2, 4, (A,), (B, C)),
        (2, 3, (A,), (B,)),
        (0, 4, (), (A, B, C)),
        (3, 3, (A, B), ()),
    ],
)
def test_a_trace_is_cut_at_epochs(
    at: int | None, until: int | None, before: tuple[Segment, ...], delta: tuple[Segment, ...]
) -> None:
    found = versions_of(PLAN, {"t": trace(A, B, C)}, at, until)["t"]
    assert (found.before, found.delta) == (before, delta)


def test_an_epoch_that_was_merged_away_cannot_be_cut_at() -> None:
    with pytest.raises(EpochNotFound):
        versions_of(PLAN, {"t": trace(A, B)}, 1)
