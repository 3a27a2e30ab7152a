"""From a view's SQL to its program: checked, typed, compiled, with the reason for each choice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from laminar.delta.compile import compile_full, compile_query
from laminar.delta.program import Program, Shape
from laminar.errors import (
    AmbiguousColumns,
    InvalidQuery,
    LaminarError,
    NonDeterministic,
    NotIncremental,
    NotSupported,
    SqlError,
    UnknownColumn,
    UnknownRelation,
)
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule, Reason
from laminar.sql import forbidden_functions, relations_of, rewrite_windows
from laminar.sql.system import system_table

if TYPE_CHECKING:
    from laminar.runtime.typer import SparkTyper


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
    for function, _ in forbidden_functions(sql):
        raise NonDeterministic(function, name)
    reads = tuple(_known(each, shapes).name for each in relations_of(sql))
    known = {each.lower(): shapes[each.lower()] for each in reads}
    output = analyse(sql, typer, known, query if sql == query else "")
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
    sql: str, typer: SparkTyper, shapes: Mapping[str, Shape], written: str
) -> list[tuple[str, str]]:
    """Let Spark's analyzer check a query, as it was written; return its columns and types."""
    try:
        return typer.of_query(sql)
    except PySparkException as error:
        raise explain_refusal(error, shapes, written) from None


SPARK_FAILS = (PySparkException, Py4JJavaError)
"""What Spark raises; the second where PySpark does not translate."""


def explain_refusal(
    error: BaseException, shapes: Mapping[str, Shape], text: str = ""
) -> LaminarError:
    """Turn a refusal of Spark's into an error that suggests what to do, and points into a text."""
    found = _refusal(error, shapes)
    place = _place(error, text)
    return found if place is None else found.at(text, *place)


def _place(error: BaseException, text: str) -> tuple[int, int] | None:
    """Return where Spark says it is, if that is a place in this very text."""
    if not text or not isinstance(error, PySparkException):
        return None
    for context in error.getQueryContext() or ():
        start, stop = context.startIndex(), context.stopIndex() + 1
        if start >= 0 and text[start:stop] and text[start:stop] == context.fragment():
            return start, stop - start
    return None


def _refusal(error: BaseException, shapes: Mapping[str, Shape]) -> SqlError:
    message = first_sentence(error)
    unresolved = re.search(r"\[UNRESOLVED_COLUMN[^\]]*\].*?name `([^`]+)`(?:\.`([^`]+)`)?", message)
    if unresolved:
        column = unresolved.group(2) or unresolved.group(1)
        known = {name for shape in shapes.values() for name in shape.columns}
        return UnknownColumn(column, sorted(known))
    return InvalidQuery("this query cannot run", message)


def first_sentence(error: BaseException) -> str:
    """Return what an error says, without the plan and the stack below it."""
    return _message(error).split("\n")[0].split(" SQLSTATE")[0].strip()


def _message(error: BaseException) -> str:
    """Return what an error says; one that Java raised is asked for its cause."""
    if not isinstance(error, Py4JJavaError):
        return str(error)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.getClass().getSimpleName())
