"""What a view does in an epoch, in words and statements."""

from __future__ import annotations

import pytest

from laminar.delta.program import Mapped, Merged, Program
from laminar.runtime.catalog.definitions import OperatorDefinition
from laminar.runtime.catalog.python_objects import applied
from laminar.runtime.introspection.explain import (
    explain_dag,
    explain_view,
    parts_of,
    reason_of,
    statements,
    storage_of,
)

from ..parts import catalog

TABLES = (
    "CREATE TABLE t (k INT, x INT);"
    "CREATE SOURCE s (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);"
)
WINDOW = "TUMBLE(ts, '1 minute')"


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("SELECT k FROM t", ["linear"]),
        ("SELECT k / x AS q FROM t", ["linear"]),
        ("SELECT a.k FROM t a JOIN t b ON a.k = b.k", ["join"]),
        ("SELECT k, SUM(x) AS x FROM t GROUP BY k", ["aggregate", "linear"]),
        ("SELECT k, MAX(x) AS x FROM t GROUP BY k", ["aggregate", "linear"]),
        ("SELECT k, COUNT(DISTINCT x) AS x FROM t GROUP BY k", ["aggregate", "linear"]),
        ("SELECT SUM(x) OVER (PARTITION BY k) AS x FROM t", ["window", "linear"]),
        ("SELECT a.k FROM t a FULL JOIN t b ON a.k = b.k AND a.x > b.x", ["join", "linear"]),
        ("SELECT k FROM t ORDER BY x LIMIT 3", ["top-k", "linear"]),
        ("SELECT COUNT(*) AS n FROM s GROUP BY SESSION(ts, '5 seconds')", ["sessions", "linear"]),
        (
            f"SELECT COUNT(*) AS n FROM s GROUP BY {WINDOW} EMIT FINAL",
            ["aggregate", "emission", "linear"],
        ),
        ("SELECT k FROM t EMIT PERIODICALLY INTERVAL '5' SECONDS", ["linear", "emission"]),
        ("SELECT k FROM s WHERE ts > now() - INTERVAL '1' HOUR", ["linear", "aging", "linear"]),
        (
            "WITH RECURSIVE r AS (SELECT k FROM t UNION ALL SELECT x FROM r JOIN t USING (k))"
            " SELECT k FROM r",
            ["recursion", "linear"],
        ),
        ("SELECT 1 AS one", ["linear"]),
    ],
)
def test_every_part_has_a_rule_a_reason_and_its_statements(query: str, rules: list[str]) -> None:
    found = catalog(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query}")
    program = found.programs["v"]
    parts = parts_of(program, found.relations)
    assert [each.rule for each in parts] == rules
    assert all(each.why for each in parts)
    lines = explain_view(program, found.relations)
    reads = ", ".join(program.sources()) or "nothing"
    assert lines[:3] == ["view: v", f"strategy: {program.strategy.value}", f"reads: {reads}"]
    for part, relation in zip(parts, program.relations, strict=True):
        assert f"{part.name}: {part.rule}" in lines
        assert f"  why: {part.why}" in lines
        assert part.why == reason_of(relation)
        for title, sql in statements(relation, found.relations):
            assert f"  {title}:" in lines
            assert "SELECT" in sql
            assert f"    {sql.splitlines()[-1]}" in lines


def test_why_a_view_is_run_in_full() -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW v WITH (refresh_policy = full) AS SELECT k FROM t"
    )
    (part,) = parts_of(found.programs["v"], found.relations)
    assert (part.rule, part.why, part.strategy) == (
        "query",
        "REQUESTED: refresh_policy is full",
        "full",
    )
    ((title, sql),) = statements(found.programs["v"].output, found.relations)
    assert title == "delta"
    assert "SELECT k FROM t" in sql


def test_late_rows_have_a_reason_and_no_statement_of_their_own() -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM s GROUP BY {WINDOW}"
        " EMIT FINAL LATE DATA TO missed"
    )
    output = found.programs["missed"].output
    assert reason_of(output) == "rows of the delta whose windows are all final"
    assert statements(output, found.relations) == []


class Operator:
    """Turns deltas into deltas."""

    def process(self, _delta: object, _context: object) -> object: ...


@pytest.mark.parametrize(("operator", "rule"), [(Operator(), "operator"), (len, "function")])
def test_python_code_says_what_it_is(operator: object, rule: str) -> None:
    found = catalog(TABLES)
    definition = OperatorDefinition("o", ("t",), (("a", "int"),))
    program = Program("o", (applied(definition, operator),))
    found.add_view(definition, program)
    (part,) = parts_of(program, found.relations)
    assert part.rule == rule


@pytest.mark.parametrize(
    ("tapped", "reader", "storages"),
    [
        ("", "", {"g#1": "accumulators", "g": "fused into what reads it"}),
        ("g", "", {"g#1": "accumulators and results", "g": "fused into what reads it"}),
    ],
)
def test_what_is_on_disk(tapped: str, reader: str, storages: dict[str, str]) -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW g AS SELECT k, SUM(x) AS x FROM t GROUP BY k; {reader}",
        tapped=tapped.split(),
    )
    told = {
        each.shape.name: storage_of(each, found.relations)
        for each in found.programs["g"].relations
        if isinstance(each, Mapped | Merged)
    }
    assert told == storages


def test_what_costs_something_is_computed_once() -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT k, UPPER(x) AS x FROM t;"
        "CREATE MATERIALIZED VIEW w AS SELECT a.k FROM v a JOIN t ON a.k = t.k"
    )
    assert storage_of(found.programs["v"].output, found.relations) == (
        "fused; its delta is computed once and shared by what reads it"
    )
    assert storage_of(found.programs["w"].output, found.relations) == "stored"


def test_the_whole_topology() -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW a AS SELECT k FROM t;"
        "CREATE MATERIALIZED VIEW b AS SELECT k FROM t;"
        "CREATE MATERIALIZED VIEW c AS SELECT a.k FROM a JOIN b ON a.k = b.k"
    )
    lines = explain_dag(found.dag, found.programs, ["1 [a, b, c]"], [("out", "c")])
    assert lines == [
        "Execution order: [t, s] -> [a, b] -> c",
        "Shared stages: t (2 consumers)",
        "Channel types: t->*: SPMC (multicast), a->c: MPSC, b->c: MPSC",
        "Consistency groups: 1 [a, b, c]",
        "Sinks: out <- c",
        "Edge t->a: SPMC",
        "Edge t->b: SPMC",
        "Edge a->c: MPSC",
        "Edge b->c: MPSC",
        "Strategy of a: incremental",
        "Strategy of b: incremental",
        "Strategy of c: incremental",
    ]
    empty = catalog("")
    assert explain_dag(empty.dag, {}, [], [])[:2] == [
        "Execution order: nothing is defined",
        "Shared stages: none",
    ]
