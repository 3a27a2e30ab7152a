"""From a view's SQL to its program: checked, typed, compiled, with the reason for each choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from laminar.delta.compile import compile_full, compile_query
from laminar.delta.program import Program, Shape
from laminar.errors import (
    AmbiguousColumns,
    NonDeterministic,
    NotIncremental,
    NotSupported,
    UnknownRelation,
)
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule, Reason
from laminar.runtime.refusals import explain_refusal, first_sentence, pointed
from laminar.sql import forbidden_functions, relations_of, rewrite_windows
from laminar.sql.system import system_table
from laminar.sql.tokens import tokenize

if TYPE_CHECKING:
    from laminar.runtime.typer import SparkTyper


__all__ = ["RefreshPolicy", "analyse", "define_view", "first_sentence", "refuse_own_columns"]


class RefreshPolicy(StrEnum):
    """Which strategies a view may use."""

    AUTO = "auto"
    INCREMENTAL = "incremental"
    FULL = "full"


def define_view(
    name: str,
    query: str,
    policy: RefreshPolicy,
    shapes: Mapping[str, Shape],
    typer: SparkTyper,
) -> Program:
    """Compile a view over known relations (by lower-case name).

    Raises:
        LaminarError: the query is not valid, or has no incremental rule and must have one.
    """
    sql = rewrite_windows(query)
    for function, place in forbidden_functions(query):
        length = tokenize(query[place.offset :])[0].end
        raise NonDeterministic(function, name).at(query, place.offset, length)
    reads = tuple(_known(each, shapes).name for each in relations_of(query))
    output = analyse(query, sql, typer, {each.lower(): shapes[each.lower()] for each in reads})
    shape = _shape(name, output)
    typer.declare(shape)
    if policy is RefreshPolicy.FULL:
        _refuse_order_dependent(name, sql, shapes, typer)
        return compile_full(shape, sql, reads, Reason.REQUESTED, "refresh_policy is full")
    try:
        return _incremental(shape, sql, shapes, typer)
    except NoRule as missing:
        if missing.reason is Reason.NON_DETERMINISTIC:
            raise NonDeterministic(missing.detail, name) from missing
        if policy is RefreshPolicy.INCREMENTAL:
            raise NotIncremental(name, missing.reason, missing.detail) from missing
        return compile_full(shape, sql, reads, missing.reason, missing.detail)


def _refuse_order_dependent(
    name: str, sql: str, shapes: Mapping[str, Shape], typer: SparkTyper
) -> None:
    """Refuse what no strategy can keep, whatever the policy; any other missing rule is fine."""
    try:
        lower(parse_query(sql), {each.name: each.columns for each in shapes.values()}, typer)
    except NoRule as missing:
        if missing.reason is Reason.NON_DETERMINISTIC:
            raise NonDeterministic(missing.detail, name) from missing
    except PySparkException:
        # Our own rendering was refused, which says nothing about the query: it runs as written.
        return


def _incremental(shape: Shape, sql: str, shapes: Mapping[str, Shape], typer: SparkTyper) -> Program:
    relations = {each.name: each.columns for each in shapes.values()}
    try:
        lowered = lower(parse_query(sql), relations, typer)
        return compile_query(shape, lowered.node, typer)
    except PySparkException as error:
        # Our own rendering was refused: say so, and let the query run as the user wrote it.
        raise NoRule(Reason.LOWERING_FAILED, first_sentence(error)) from error


def _known(name: str, shapes: Mapping[str, Shape]) -> Shape:
    found = shapes.get(name.lower())
    if system_table(name) is not None:
        hint = "a view follows the rows of tables and views; query the system's own relations"
        raise NotSupported(f'"{name}" in a view', hint)
    if found is None:
        raise UnknownRelation(name, [each.name for each in shapes.values()])
    return found


def _shape(name: str, output: list[tuple[str, str]]) -> Shape:
    names = [column.lower() for column, _ in output]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise AmbiguousColumns(twice)
    refuse_own_columns(names)
    return Shape(name, tuple(column for column, _ in output), tuple(kind for _, kind in output))


def refuse_own_columns(names: Iterable[str]) -> None:
    """Raise if a column is called like one of those that carry weights and accumulators."""
    for name in names:
        if name.startswith("__"):
            hint = "choose a name that does not start with two underscores"
            raise NotSupported(f'the column "{name}"', hint)


def analyse(
    query: str, sql: str, typer: SparkTyper, shapes: Mapping[str, Shape]
) -> list[tuple[str, str]]:
    """Let Spark's analyzer check a query, which is `sql` in its words; return columns and types."""
    try:
        return typer.of_query(sql)
    except PySparkException as error:
        found = explain_refusal(error, shapes, typer.functions)
        raise pointed(found, error, query, sql) from None
