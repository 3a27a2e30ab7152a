"""Definitions that belong together: what is refused leaves them as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.errors import DuplicateName, FanOutLimitExceeded, HasDependents, UnknownRelation
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import TableDefinition, ViewDefinition, from_json, to_json
from laminar.testing import FixedTyper

from ..parts import catalog

SCRIPT = """
CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k));
CREATE SOURCE Trades (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
CREATE MATERIALIZED VIEW big AS SELECT k, x, ts FROM trades WHERE x > 9;
CREATE MATERIALIZED VIEW Sums AS SELECT k, SUM(x) AS s FROM BIG GROUP BY k;
CREATE MATERIALIZED VIEW late AS
  SELECT TUMBLE_END(ts, INTERVAL '1' MINUTE) AS e, COUNT(*) AS n FROM big
  GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE) EMIT ON WINDOW CLOSE LATE DATA TO missed;
"""


def state(found: Catalog) -> object:
    """All that a catalog says."""
    return (
        to_json(found.in_order()),
        found.outline(),
        found.registry.dependency_map(),
        found.shapes(),
        [node.name for node in found.dag.nodes.values()],
    )


def test_an_outline_holds_columns_inputs_and_strategy() -> None:
    sql = "CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v {} AS SELECT n, n * 2 AS twice FROM t"
    full = catalog(sql.format("WITH (refresh_policy = full)"), typer=FixedTyper({"n": "bigint"}))
    outline = json.loads(json.dumps(full.outline()))
    columns = [["n", "bigint"], ["twice", "int"]]
    assert outline == {"v": {"columns": columns, "reads": ["t"], "strategy": "full"}}
    assert catalog(sql.format("")).outline()["v"]["strategy"] == "incremental"


@pytest.mark.parametrize("name", ["trades", "TRADES", "sums", "Missed"])
def test_names_are_found_whatever_their_case(name: str) -> None:
    found = catalog(SCRIPT)
    assert found.exists(name)
    assert found.resolve(name).lower() == name.lower()
    assert found.resolve(name) in found.definitions
    with pytest.raises(DuplicateName):
        found.refuse_duplicate(name)
    with pytest.raises(DuplicateName):
        found.add_table(TableDefinition(name, (("a", "INT", True),)))


def test_what_is_not_there_is_named_with_what_is_near() -> None:
    found = catalog(SCRIPT)
    assert not found.exists("trade")
    found.refuse_duplicate("trade")
    with pytest.raises(UnknownRelation) as refused:
        found.resolve("trade")
    assert refused.value.suggestion == "Trades"


def test_what_is_asked_of_a_relation() -> None:
    found = catalog(SCRIPT)
    assert found.shape("names").columns == ("k", "name")
    assert found.shape("Sums").columns == ("k", "s")
    assert found.shape("missed").columns == ("k", "x", "ts")
    assert set(found.shapes()) == {"names", "trades", "big", "sums", "late", "missed"}
    assert found.parts("Sums") == {"Sums#1", "Sums"}
    assert found.parts("big") == {"big"}
    assert found.primary_keys() == {"names": ("k",), "Trades": ()}
    times = {name: set(each.columns) for name, each in found.timings().items() if each.columns}
    assert times == {"Trades": {"ts"}, "big": {"ts"}, "late": {"e"}}


def test_late_rows_come_from_what_the_view_reads_and_follow_it() -> None:
    found = catalog(SCRIPT)
    assert found.programs["missed"].sources() == ("big", "late")
    assert found.programs["missed"].output.shape.name == "missed"


def test_a_view_that_is_refused_leaves_nothing_behind() -> None:
    found = catalog(SCRIPT)
    found.limit_fan_out(4)
    more = ViewDefinition("more", "SELECT k FROM big")
    found.add_view(more, found.compile(more))
    before = state(found)
    other = replace(more, name="other")
    program = found.compile(other)
    with pytest.raises(FanOutLimitExceeded):
        found.add_view(other, program)
    assert state(found) == before
    found.limit_fan_out(5)
    found.add_view(other, program)
    assert found.registry.get_dependents("big") == ("Sums", "late", "missed", "more", "other")


def test_fewer_readers_than_there_are_cannot_be_the_limit() -> None:
    found = catalog(SCRIPT)
    with pytest.raises(FanOutLimitExceeded):
        found.limit_fan_out(1)


def test_a_replaced_view_keeps_its_place_and_its_readers() -> None:
    found = catalog(SCRIPT)
    built = found.dag
    anew = ViewDefinition("big", "SELECT k, k AS x, TIMESTAMP'2026-01-01' AS ts FROM names")
    found.replace_view(anew, found.compile(anew))
    assert found.registry.get_dependencies("big") == ("names",)
    assert found.registry.get_dependents("Trades") == ()
    assert found.registry.get_dependents("big") == ("Sums", "late", "missed")
    assert list(found.in_order()) == ["names", "Trades", "big", "Sums", "late", "missed"]
    assert found.dag is not built
    # One that now reads what was defined after it comes later, where it counts.
    later = ViewDefinition("big", "SELECT k, x, ts FROM newest")
    newest = ViewDefinition("newest", "SELECT k, x, ts FROM trades")
    found.add_view(newest, found.compile(newest))
    found.replace_view(later, found.compile(later))
    assert list(found.definitions)[-1] == "newest"
    assert list(found.in_order())[2:4] == ["newest", "big"]


def test_removing_takes_the_last_reader_first() -> None:
    found = catalog(SCRIPT)
    with pytest.raises(HasDependents):
        found.remove("big")
    for name in ("missed", "late", "Sums", "big", "Trades"):
        found.remove(name)
    assert list(found.definitions) == ["names"]
    assert found.programs == {}
    assert [node.name for node in found.dag.nodes.values()] == ["names"]


def test_a_copy_changes_on_its_own() -> None:
    found = catalog(SCRIPT)
    before, copied = state(found), found.copy()
    copied.remove("Sums")
    copied.add_table(TableDefinition("t", (("a", "INT", True),)))
    assert state(found) == before
    assert state(copied) != before


def test_the_topology_is_built_once_per_change() -> None:
    found = catalog(SCRIPT)
    assert found.dag is found.dag
    built = found.dag
    found.add_table(TableDefinition("t", (("a", "INT", True),)))
    assert found.dag is not built


def test_views_are_declared_again_with_their_hidden_parts() -> None:
    typer = FixedTyper()
    found = catalog(SCRIPT, typer=typer)
    typer.declared.clear()
    found.declare(["Sums", "names"])
    assert [shape.name for shape in typer.declared] == ["Sums#1", "Sums"]


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Tables and views over any of those before, in one statement each."""
    lines = ["CREATE TABLE t0 (k INT, x INT)", "CREATE TABLE t1 (k INT, x INT)"]
    known = ["t0", "t1"]
    for number in range(draw(st.integers(0, 6))):
        left, right = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        query = f"SELECT a.k, b.x FROM {left} a JOIN {right} b ON a.k = b.k"
        lines.append(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        known.append(f"v{number}")
    return ";\n".join(lines)


@settings(max_examples=20)
@given(scripts())
def test_definitions_come_after_what_they_read_and_compile_again(script: str) -> None:
    found = catalog(script)
    seen: set[str] = set()
    for name in found.in_order():
        assert set(found.registry.get_dependencies(name)) <= seen
        seen.add(name)
    again = Catalog(FixedTyper())
    for each in from_json(json.loads(json.dumps(to_json(found.in_order())))):
        if isinstance(each, TableDefinition):
            again.add_table(each)
        else:
            assert isinstance(each, ViewDefinition)
            again.add_view(each, again.compile(each, is_stored=True))
    assert again.outline() == found.outline()
    assert again.definitions == found.definitions
