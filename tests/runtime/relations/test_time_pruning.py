"""A join on time reads only what lies within reach of the change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.delta.change import Version, table
from laminar.delta.program import Mapped
from laminar.model.trace import Segment
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.time_pruning import near
from laminar.runtime.relations.trace_versions import TraceVersions

from ..parts import NO_SPARK, catalog, segment

S = 1_000_000
TABLES = (
    "CREATE SOURCE a (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);"
    "CREATE SOURCE b (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);"
    "CREATE TABLE n (k INT, ts TIMESTAMP);"
)
WITHIN = "b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '10' SECOND"
JOIN = f"SELECT a.k FROM a JOIN b ON a.k = b.k AND {WITHIN}"
SQL = " ".join(table(name, version) for name in "ab" for version in Version)


def joined(query: str = JOIN) -> tuple[Mapped, Bindings]:
    found = catalog(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query}")
    relation = found.programs["v"].output
    assert isinstance(relation, Mapped)
    nothing = {name: TraceVersions("") for name in ("a", "b", "n")}
    return relation, Bindings(NO_SPARK, NO_SPARK, found.relations, nothing)


def at(low: int, high: int, epoch: int = 1) -> Segment:
    return segment(epoch, spans={"ts": (low * S, high * S)})


def kept(relation: Mapped, bindings: Bindings, name: str, version: Version) -> list[Segment] | None:
    """Return the segments that a version of a relation is cut to; None if it is not."""
    sql = near(relation, SQL, bindings)
    place = SQL.split().index(table(name, version))
    binding = sql.split()[place]
    return list(bindings._cuts[binding][1]) if binding in bindings._cuts else None


@pytest.mark.parametrize(
    ("changed", "held", "stays"),
    [
        ((100, 100), (110, 120), True),
        ((100, 100), (111, 120), False),  # more than 10 seconds later
        ((100, 100), (80, 95), True),
        ((100, 100), (80, 94), False),  # more than 5 seconds before
        ((100, 200), (150, 150), True),
        ((100, 200), (0, 999), True),
    ],
)
def test_segments_without_a_partner_are_left_out(
    changed: tuple[int, int], held: tuple[int, int], stays: bool
) -> None:
    relation, bindings = joined()
    near_by, one = at(100, 100), at(*held, epoch=2)
    bindings.versions["a"] = TraceVersions("", (), (at(*changed),))
    bindings.versions["b"] = TraceVersions("", (near_by, one))
    found = kept(relation, bindings, "b", Version.BEFORE)
    assert found == (None if stays else [near_by])
    assert kept(relation, bindings, "a", Version.BEFORE) is None  # nothing changed in b


def test_both_sides_are_cut_by_what_changed_in_the_other() -> None:
    relation, bindings = joined()
    old, new = at(0, 1), at(100, 100, epoch=2)
    for name in "ab":
        bindings.versions[name] = TraceVersions("", (old,), (new,))
        assert bindings.versions[name].segments(Version.AFTER) == (old, new)
    for name in "ab":
        assert kept(relation, bindings, name, Version.BEFORE) == []
        assert kept(relation, bindings, name, Version.AFTER) == [new]
        assert kept(relation, bindings, name, Version.DELTA) is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k FROM a JOIN b ON a.k = b.k",  # no limit
        f"{JOIN} JOIN n ON n.k = a.k",  # three of them
        f"SELECT a.k FROM a JOIN n b ON a.k = b.k AND {WITHIN}",  # no event time
        f"SELECT a.k FROM a JOIN a b ON a.k = b.k AND {WITHIN}",  # one relation twice
        "SELECT a.k FROM a JOIN b ON a.k = b.k AND b.ts > a.k",
    ],
)
def test_where_nothing_is_known_nothing_is_left_out(query: str) -> None:
    relation, bindings = joined(query)
    for name in ("a", "b", "n"):
        bindings.versions[name] = TraceVersions("", (at(0, 1),), (at(100, 100, epoch=2),))
    assert near(relation, SQL, bindings) == SQL


def test_segments_of_which_the_span_is_not_known_stay() -> None:
    relation, bindings = joined()
    unknown, far = segment(1), at(0, 1, epoch=2)
    bindings.versions["a"] = TraceVersions("", (), (at(100, 100),))
    bindings.versions["b"] = TraceVersions("", (unknown, far))
    assert kept(relation, bindings, "b", Version.BEFORE) == [unknown]
    bindings.versions["a"] = TraceVersions("", (), (at(100, 100), segment(2)))
    assert kept(relation, bindings, "b", Version.BEFORE) is None  # nor how far the change goes


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=3),
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=3), max_size=3),
)
def test_no_partner_is_left_out(changed: list[int], stored: list[list[int]]) -> None:
    relation, bindings = RELATION
    segments = [at(min(times), max(times), epoch) for epoch, times in enumerate(stored, 1)]
    bindings.versions["a"] = TraceVersions("", (), (at(min(changed), max(changed)),))
    bindings.versions["b"] = TraceVersions("", tuple(segments))
    found = kept(relation, bindings, "b", Version.BEFORE)
    for times, each in zip(stored, segments, strict=True):
        meets = any(one - 5 <= other <= one + 10 for one in changed for other in times)
        assert not meets or found is None or each in found


RELATION = joined()
