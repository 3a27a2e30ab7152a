"""Which relations keep rows: decided once, by who needs them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.delta.program import Mapped, Merged
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.storage_plan import StoragePlan

from ..parts import catalog

TABLES = (
    "CREATE TABLE t (k INT, x INT);"
    "CREATE SOURCE s (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);"
)
HOURS = "TUMBLE(ts, INTERVAL '1' HOUR)"
QUERIES = {
    "linear": "SELECT k, x FROM {}",
    "joined": "SELECT a.k, b.x FROM {0} a JOIN {0} b ON a.k = b.k",
    "grouped": "SELECT k, SUM(x) AS x FROM {} GROUP BY k",
    "distinct": "SELECT k, COUNT(DISTINCT x) AS x FROM {} GROUP BY k",
}


def views(**defined: str) -> str:
    """Views by name: the kind of query and what it reads."""
    made = []
    for name, text in defined.items():
        kind, source = text.split()
        made.append(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[kind].format(source)};")
    return TABLES + "".join(made)


@pytest.mark.parametrize(
    ("script", "stored", "tapped", "fused", "finished"),
    [
        # A linear view is stored if nobody reads it, and has no rows if somebody does.
        (views(v="linear t"), "", "", "", ""),
        (views(v="linear t", w="joined v"), "", "", "v", ""),
        (views(v="linear t", w="joined v"), "v", "", "", ""),
        (views(v="joined t", w="linear v"), "", "", "", ""),
        # Groups have results only where someone needs the delta of them.
        (views(v="grouped t"), "", "", "v", ""),
        (views(v="grouped t"), "", "v", "v", "v#1"),
        (views(v="grouped t"), "v#1", "", "v", "v#1"),
        (views(v="grouped t", w="joined v"), "", "", "v", "v#1"),
        # A linear view that nobody reads is stored, so it needs the delta of the groups.
        (views(v="grouped t", w="linear v"), "", "", "v", "v#1"),
        (views(v="distinct t"), "", "", "v", ""),
        # Through several fused views only what somebody asks for is handed on.
        (views(a="grouped t", b="linear a", c="linear b", d="joined c"), "", "", "a b c", "a#1"),
    ],
)
def test_what_is_stored(script: str, stored: str, tapped: str, fused: str, finished: str) -> None:
    plan = catalog(script, stored=stored.split(), tapped=tapped.split()).relations
    assert plan.fused == set(fused.split())
    assert plan.finished == set(finished.split())


def test_windows_that_wait_are_merged_from_their_accumulators() -> None:
    query = f"SELECT {HOURS}.end AS e, SUM(x) AS n FROM s GROUP BY {HOURS}"
    shown = catalog(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query} EMIT FINAL")
    assert [type(each).__name__ for each in shown.programs["v"].relations] == [
        "Merged",
        "Emitted",
        "Mapped",
    ]
    assert shown.relations.finished == frozenset()


def test_what_had_no_rows_may_stay_without_while_nobody_reads_it() -> None:
    found = catalog(views(v="linear t"))
    without = frozenset[str]()
    kept = found.plan(stored=without, keep_fused=frozenset({"v"}), tapped=without)
    assert kept.fused == {"v"}
    assert found.plan(stored=without, keep_fused=without, tapped=without).fused == set()


def test_who_reads_whom() -> None:
    plan = catalog(views(v="grouped t", w="joined v", x="linear t")).relations
    assert plan.readers("t") == ("v#1", "x")
    assert plan.readers("v#1") == ("v",)
    assert plan.readers("v") == ("w",)
    assert plan.readers("w") == ()


@pytest.mark.parametrize(
    ("query", "times"),
    [
        ("SELECT k, ts FROM s", {"v": ("ts",)}),
        ("SELECT k, ts + INTERVAL '1' HOUR AS later FROM s", {"v": ("later",)}),
        ("SELECT k FROM s", {"v": ()}),
        ("SELECT a.ts FROM s a JOIN s b ON a.k = b.k", {"v": ()}),
        ("SELECT k, MAX(ts) AS ts FROM s GROUP BY k", {"v#1": (), "v": ()}),
        ("SELECT ts, SUM(x) AS n FROM s GROUP BY ts", {"v": ("ts",)}),
    ],
)
def test_columns_of_which_segments_know_the_span(
    query: str, times: dict[str, tuple[str, ...]]
) -> None:
    plan = catalog(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query}").relations
    assert plan.times("s") == ("ts",)
    for name, columns in times.items():
        assert plan.times(name) == columns
        assert plan.times(f"{name}!partial") == plan.times(f"{name}!pending") == columns


def test_rows_that_age_are_found_by_their_limits() -> None:
    query = "SELECT k FROM s WHERE ts >= now() - INTERVAL '1' HOUR"
    plan = catalog(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query}").relations
    aging = plan.by_name["v#2"]
    assert aging.reads == ("v#1",)
    assert {aging.node.start, aging.node.end} <= set(plan.times("v#1"))  # type: ignore[union-attr]


KINDS = st.sampled_from(sorted(QUERIES))


@st.composite
def planned(draw: st.DrawFn) -> tuple[Catalog, frozenset[str], frozenset[str]]:
    """Views of any kind over any view before, with relations that are stored or tapped."""
    names: list[str] = []
    defined = {}
    for number in range(draw(st.integers(1, 5))):
        source = draw(st.sampled_from(["t", *names]))
        defined[f"v{number}"] = f"{draw(KINDS)} {source}"
        names.append(f"v{number}")
    found = catalog(views(**defined))
    parts = st.frozensets(st.sampled_from(sorted(found.relations.by_name)))
    return found, draw(parts), draw(parts)


@settings(max_examples=40)
@given(planned())
def test_the_laws(situation: tuple[Catalog, frozenset[str], frozenset[str]]) -> None:
    found, stored, tapped = situation
    plan = found.plan(stored=stored, keep_fused=frozenset(), tapped=tapped)
    assert not plan.fused & stored  # what has rows keeps them
    for name in plan.fused:
        relation = plan.by_name[name]
        assert isinstance(relation, Mapped)
        assert relation.fusible
    for name, relation in plan.by_name.items():
        if isinstance(relation, Merged):
            assert (name in plan.finished) == (name in stored or _is_wanted(plan, name, tapped))
        else:
            assert name not in plan.finished


def _is_wanted(plan: StoragePlan, name: str, tapped: frozenset[str]) -> bool:
    """Whether somebody who computes rows reads it, or somebody outside, through fused views."""
    if name in tapped:
        return True
    return any(
        each not in plan.fused or _is_wanted(plan, each, tapped) for each in plan.readers(name)
    )
