"""What becomes of a view's query: a program, or a refusal that says what to do instead."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from laminar.delta.program import Recomputed, Strategy
from laminar.errors import (
    AmbiguousColumns,
    LaminarError,
    NonDeterministic,
    NotIncremental,
    NotSupported,
    NoWindow,
    SqlError,
    UnknownColumn,
    UnknownRelation,
)
from laminar.plan.nodes import Node
from laminar.plan.reasons import Reason
from laminar.runtime.catalog.compile_view import (
    RefreshPolicy,
    Surroundings,
    define_view,
    refuse_own_columns,
)
from laminar.testing import FixedTyper

from ..parts import catalog

TABLES = """
CREATE SOURCE t (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
CREATE SOURCE u (k INT, y INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE names (k INT, name STRING);
"""
WINDOW = "SELECT TUMBLE_END(ts, INTERVAL '1' MINUTE) AS e, COUNT(*) AS n FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"  # noqa: E501
RECURSIVE = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT DISTINCT n + 1 FROM r) SELECT n FROM r"
)
ASOF = "SELECT t.x, u.y FROM t ASOF JOIN u MATCH_CONDITION (t.ts >= u.ts) ON t.k = u.k"

FULL = "WITH (refresh_policy = full)"
ONLY = "WITH (refresh_policy = incremental)"


def view(query: str, options: str = "", typer: FixedTyper | None = None) -> Recomputed | Strategy:
    """Compile one view over the tables; return its strategy, or why it has none."""
    script = f"{TABLES} CREATE MATERIALIZED VIEW v {options} AS {query}"
    program = catalog(script, typer=typer).programs["v"]
    made = program.relations[0]
    return made if isinstance(made, Recomputed) else program.strategy


@pytest.mark.parametrize(
    ("query", "strategy"),
    [
        ("SELECT k FROM t", Strategy.INCREMENTAL),
        ("SELECT * FROM t JOIN names USING (k)", Strategy.INCREMENTAL),
        ("SELECT k, SUM(x) AS s FROM t GROUP BY k", Strategy.INCREMENTAL),
        ("SELECT k, COUNT(DISTINCT x) AS s FROM t GROUP BY k", Strategy.AFFECTED_GROUPS),
        ("SELECT x FROM t WHERE ts > now() - INTERVAL '1' HOUR", Strategy.INCREMENTAL),
        ("SELECT x FROM t WHERE ts > current_timestamp", Strategy.INCREMENTAL),
        ("SELECT 'now()' AS said FROM t", Strategy.INCREMENTAL),
        (RECURSIVE.replace("DISTINCT ", ""), Strategy.INCREMENTAL),
        (ASOF, Strategy.AFFECTED_GROUPS),
        (WINDOW, Strategy.INCREMENTAL),
        (f"{WINDOW} EMIT FINAL", Strategy.INCREMENTAL),
        ("SELECT 1 AS one", Strategy.INCREMENTAL),
    ],
)
def test_a_query_with_a_rule(query: str, strategy: Strategy) -> None:
    assert view(query) is strategy
    assert view(query, ONLY) is strategy


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        ("SELECT k FROM t", FULL, Reason.REQUESTED),
        (RECURSIVE, "", Reason.RECURSION_BY_LEVEL),
        ("SELECT EXPLODE(ARRAY(k)) + 1 AS e FROM t", "", Reason.GENERATOR_POSITION),
        ("SELECT k FROM t UNION ALL BY NAME SELECT k FROM u", "", Reason.UNKNOWN_CLAUSE),
    ],
)
def test_a_query_without_one_runs_in_full_and_says_why(
    query: str, options: str, reason: Reason
) -> None:
    made = view(query, options)
    assert isinstance(made, Recomputed)
    assert (made.sql, made.reason) == (query, reason)


def test_a_lowering_that_changed_types_is_not_used() -> None:
    made = view("SELECT k FROM t", typer=FixedTyper({"k": "string"}))
    assert isinstance(made, Recomputed)
    assert (made.reason, made.detail) == (
        Reason.LOWERING_CHANGED_TYPES,
        "k is string, planned as int",
    )


class Refusing(FixedTyper):
    """Refuses our own rendering of a query, and nothing that a user wrote."""

    def types(self, _node: Node) -> dict[str, str]:
        raise AnalysisException("[ODD] it does not go. SQLSTATE: 1\nplan")


def test_a_rendering_that_spark_refuses_is_not_used() -> None:
    made = view("SELECT k FROM t", typer=Refusing())
    assert isinstance(made, Recomputed)
    assert (made.reason, made.detail) == (Reason.LOWERING_FAILED, "[ODD] it does not go.")


@pytest.mark.parametrize(
    ("query", "options", "error", "said"),
    [
        ("SELECT rand() AS r FROM t", "", NonDeterministic, "rand"),
        ("SELECT current_user AS r FROM t", "", NonDeterministic, "current_user"),
        ("SELECT now() AS r FROM t", "", NonDeterministic, "now"),
        ("SELECT x FROM t WHERE ts > now()", FULL, NonDeterministic, "now"),
        ("SELECT k, now() AS r FROM t WHERE ts > now()", "", NonDeterministic, "now"),
        ("SELECT FIRST(x) AS r FROM t", FULL, NonDeterministic, "FIRST"),
        (RECURSIVE, ONLY, NotIncremental, "RECURSION_BY_LEVEL"),
        (f"{RECURSIVE} EMIT ON WINDOW CLOSE", "", NoWindow, "AFTER WATERMARK"),
        (f"{WINDOW} EMIT FINAL", FULL, NotSupported, "EMIT FINAL with refresh_policy"),
        (f"{WINDOW} ALLOW LATENESS INTERVAL '1' SECOND", FULL, NotSupported, "ALLOW LATENESS"),
        ("SELECT k FROM t EMIT FINAL", "", NoWindow, "EMIT FINAL"),
        ("SELECT k FROM t ALLOW LATENESS INTERVAL '1' HOUR", "", NoWindow, "ALLOW LATENESS"),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k EMIT FINAL", "", NoWindow, "no window"),
        (ASOF, FULL, NotSupported, "ASOF JOIN with refresh_policy"),
        (ASOF.replace("t.x", "EXPLODE(ARRAY(t.x)) + 1 AS e"), "", NotSupported, "this ASOF JOIN"),
        ("SELECT * FROM laminar_system.epochs", "", NotSupported, "laminar_system.epochs"),
        ("SELECT * FROM name", "", UnknownRelation, "name"),
        ("SELECT * FROM t JOIN names ON t.k = names.k", "", AmbiguousColumns, "k"),
        ("SELECT k AS __weight FROM t", "", NotSupported, "__weight"),
    ],
)
def test_what_no_view_can_be(
    query: str, options: str, error: type[LaminarError], said: str
) -> None:
    with pytest.raises(error, match=said):
        view(query, options)


def test_a_refusal_points_at_what_is_wrong() -> None:
    with pytest.raises(NonDeterministic) as refused:
        view("SELECT k,\n rand() AS r FROM t")
    assert refused.value.place == (2, 2)


def test_a_string_that_means_another_time_tomorrow() -> None:
    query = "SELECT k FROM t WHERE ts > '09:00'"
    assert view(query) is Strategy.INCREMENTAL  # it is no time here, as far as Spark says
    with pytest.raises(NonDeterministic, match="09:00"):
        view(query, typer=FixedTyper(times={"09:00"}))


def test_what_an_older_version_has_taken_is_opened() -> None:
    found = catalog(TABLES, typer=FixedTyper(times={"09:00"}))
    around = Surroundings(found.shapes(), found.typer, found.timings())
    made = define_view(
        "v", "SELECT k FROM t WHERE ts > '09:00'", RefreshPolicy.AUTO, around, is_stored=True
    )
    assert made.strategy is Strategy.INCREMENTAL


class Misspelled(FixedTyper):
    """Refuses a query as Spark does that finds no column of a name."""

    def of_query(self, _sql: str) -> list[tuple[str, str]]:
        raise AnalysisException(
            "there is no such column",
            errorClass="UNRESOLVED_COLUMN.WITH_SUGGESTION",
            messageParameters={"objectName": "`nme`", "proposal": "`k`, `name`"},
        )


def test_what_spark_refuses_is_told_in_our_words() -> None:
    with pytest.raises(UnknownColumn) as refused:
        view("SELECT nme FROM names", typer=Misspelled())
    assert isinstance(refused.value, SqlError)
    assert refused.value.suggestion == "name"


@pytest.mark.parametrize("name", ["__weight", "__x"])
def test_columns_that_are_ours(name: str) -> None:
    refuse_own_columns(["weight", "_x"])
    with pytest.raises(NotSupported, match=name):
        refuse_own_columns(["a", name])


def test_a_rule_that_stumbles_costs_the_rule_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise ValueError("zip() argument 2 is longer")

    monkeypatch.setattr("laminar.runtime.catalog.compile_view.lower", stumble)
    found = view("SELECT k FROM t")
    assert isinstance(found, Recomputed)
    assert found.reason is Reason.LOWERING_FAILED
    assert "ValueError" in found.detail
