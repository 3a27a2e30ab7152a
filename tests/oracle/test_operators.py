"""Every operator and aggregate against full recomputation, after every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laminar.delta.program import Strategy
from laminar.errors import LaminarError, NonDeterministic
from laminar.session import connect
from laminar.sql.references import relations_of
from laminar.testing import Oracle

from .cases import KINDS, RARE, TABLES, Case
from .script import THOROUGH, Script, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRATEGIES = {"I": Strategy.INCREMENTAL, "G": Strategy.AFFECTED_GROUPS, "F": Strategy.FULL}


def quick(kind: str) -> list[Case]:
    """Return the cases that are in every run: one of sixteen that need not wait for more time.

    Cascades read one another; the lowest of them are enough for that.
    """
    if kind == "cascades":
        return KINDS[kind][:6]
    return [case for case in KINDS[kind] if not case.at_length][::16]


CHOSEN = KINDS if THOROUGH else {kind: quick(kind) for kind in KINDS if quick(kind)}


@pytest.mark.spark
@pytest.mark.parametrize("kind", CHOSEN)
def test_views_equal_recomputation(kind: str, spark: SparkSession) -> None:
    cases = [case for case in CHOSEN[kind] if case.since <= spark.version]
    wrong: dict[str, str] = {}
    with connect(spark=spark) as db:
        full = frozenset(case.name for case in cases if case.strategy == "F")
        oracle = Oracle(db, spark, may_be_full=full)
        # In a sample, only what it reads: a change of rows that nobody reads takes its time, too.
        read = {name for case in cases for name in relations_of(case.sql)}
        for name, ddl in (TABLES | RARE if kind == "deep" else TABLES).items():
            if THOROUGH or name in read:
                oracle.table(name, ddl)

        def define(chosen: str) -> None:
            for case in cases:
                # Half of the views see rows from the start, half are filled from what is there.
                early = kind in ("cascades", "towers") or len(case.name) % 2 == 0
                if early == (chosen == "early"):
                    try:
                        db.execute(f"CREATE MATERIALIZED VIEW `{case.name}` AS {case.sql}")
                    except Exception as error:  # tell of all cases, not of the first one
                        wrong[case.name] = f"{type(error).__name__}: {error}"
                        continue
                    program = db.engine.defined.catalog.programs[case.name]
                    if program.strategy is not STRATEGIES[case.strategy]:
                        why = [getattr(each, "detail", "") for each in program.relations]
                        wrong.setdefault(case.name, f"{program.strategy} {why}")

        define("early")
        for place, title in enumerate(Script(oracle, seed=len(kind)).steps()):
            try:
                db.step()
            except LaminarError as error:  # of one view; the others went on
                wrong[title] = str(error)
            if place == 0:
                define("late")
            for name, problem in oracle.problems():
                wrong.setdefault(name, f"after {title!r}: {problem}")
    tell(kind, oracle.compared)
    assert wrong == {}


@pytest.mark.spark
def test_an_aggregate_that_takes_any_row_is_refused_in_full(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        db.execute("CREATE TABLE t (k INT, x INT)")
        for call in ("FIRST(x)", "LAST(x, true)", "ANY_VALUE(x)", "FIRST_VALUE(x) IGNORE NULLS"):
            query = f"SELECT k, {call} AS f FROM t GROUP BY k"
            option = "WITH (refresh_policy = 'full')"
            with pytest.raises(NonDeterministic, match="not deterministic"):
                db.execute(f"CREATE MATERIALIZED VIEW v {option} AS {query}")
