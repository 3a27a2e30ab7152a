"""From a view's SQL to its program: checked, typed, compiled, with the reason for each choice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Protocol

from laminar.delta.compile import Types, compile_full, compile_query
from laminar.delta.emission import Emission, Mode
from laminar.delta.program import Program, Shape
from laminar.errors import (
    AmbiguousColumns,
    ColumnOutOfReach,
    CorrelatedTooFar,
    NonDeterministic,
    NotIncremental,
    NotSupported,
    NoWindow,
    SqlError,
    UnknownRelation,
)
from laminar.model.char_columns import Chars
from laminar.model.event_time import Timing
from laminar.model.quoting import backquoted
from laminar.plan.aggregate_calls import takes_one_row
from laminar.plan.closing import Closer, NotClosable, times_of
from laminar.plan.context import Casts, Lowered
from laminar.plan.domain import nests_twice
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule, Reason
from laminar.runtime.spark.error_translation import (
    SPARK_FAILS,
    explain_refusal,
    first_sentence,
    is_only_unfit_place,
    pointed,
)
from laminar.sql import forbidden_functions, relations_of, rewrite_windows, unfinished_times
from laminar.sql.asof import has_asof, rewrite_asof
from laminar.sql.cursor import Cursor
from laminar.sql.keywords import keywords
from laminar.sql.query import starts_query
from laminar.sql.system import system_table
from laminar.sql.tokens import Kind, tokenize

__all__ = ["RefreshPolicy", "analyse", "define_view", "first_sentence", "refuse_own_columns"]

_ALWAYS = Emission()


CLOCK = ("now", "current_timestamp")
"""What a view may compare a row's time with; see `plan.aging`."""


_CALENDAR = re.compile(r"\binterval(?=[,>]|$)")

_NO_CALLS = keywords(
    "AS BY DECIMAL EXCEPT EXISTS FILTER FROM GROUP HAVING JOIN LATERAL ON OVER SELECT SETS THEN"
    " UNION USING VALUES VARCHAR WHERE WITH WITHIN"
)
"""Words before a bracket that are no functions; one that is missing here costs a question."""


class RefreshPolicy(StrEnum):
    """Which strategies a view may use; AUTO takes an incremental one wherever there is a rule."""

    AUTO = "auto"
    INCREMENTAL = "incremental"
    FULL = "full"


class Analyzer(Types, Protocol):
    """Spark's analyzer, as far as definitions ask it; `SparkTyper` is one, tests have another."""

    @property
    def time_zone(self) -> str:
        """The zone of the session."""
        ...

    @property
    def recursion_levels(self) -> int | None:
        """How many levels a recursion may have if it does not say so itself; None for any."""
        ...

    @property
    def unplanned(self) -> str:
        """Say which setting gives queries another meaning than the planner takes; "" if none."""
        ...

    @property
    def spark_joins_asof(self) -> bool:
        """Say whether ASOF JOIN is Spark's own."""
        ...

    def declare(self, shape: Shape, *, numbered: bool = False) -> None:
        """Make a relation known; rows of tables are `numbered` by their arrival."""
        ...

    def of_query(self, sql: str) -> list[tuple[str, str]]:
        """Return (column, type) of a user's query; names may repeat."""
        ...

    def compared(self, left: str, right: str, operator: str) -> tuple[Casts, Casts] | None:
        """Return what values of two types are cast to before they are compared."""
        ...

    def chars_of(self, sql: str) -> Chars:
        """Return which columns of a user's query Spark compares as CHAR(n)."""
        ...

    def pads_chars(self) -> bool:
        """Say whether Spark treats CHAR(n) as it does by itself."""
        ...

    def reads_as_time(self, sql: str, text: str) -> bool:
        """Say whether a string stands for a time somewhere in a query."""
        ...

    def unfit(self, kind: str, *, pushed: bool) -> str:
        """Say why rows cannot have a column of that type, or cannot be `pushed`; "" if they can."""
        ...

    def body_of(self, function: str) -> str:
        """Return what a function of Spark's catalog computes, if it is written in SQL; else ""."""
        ...

    def functions(self) -> tuple[str, ...]:
        """Return the names of all functions."""
        ...

    def built_in(self) -> frozenset[str]:
        """Return the names of the functions that nobody has to bring, in lower case."""
        ...

    def let_call(self, sql: Mapping[str, str], python: Mapping[str, str]) -> None:
        """Have queries call these functions of the user's, and no others.

        Args:
            sql: name -> what follows it in its definition.
            python: name -> the type that it returns, as JSON.
        """
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a view is defined among.

    Args:
        shapes: relations by lower-case name.
        typer: knows them too.
        timings: relation -> columns that carry event time.
        tables: names of tables in lower case; their rows are numbered.
    """

    shapes: Mapping[str, Shape]
    typer: Analyzer
    timings: Mapping[str, Timing] = field(default_factory=dict)
    tables: frozenset[str] = frozenset()


def define_view(
    name: str,
    query: str,
    policy: RefreshPolicy,
    around: Surroundings,
    emission: Emission = _ALWAYS,
    *,
    is_stored: bool = False,
    written_out: str = "",
) -> Program:
    """Compile a view over known relations.

    What is compiled is the query as it is `written_out`, without the functions of the user's that
    are expressions; its columns are called as Spark calls those of the query.

    One that `is_stored` was taken by a version that knew fewer reasons to refuse it: a database
    that cannot be opened helps nobody.

    Raises:
        LaminarError: the query is not valid, or has no incremental rule and must have one.
    """
    shapes, typer = around.shapes, around.typer
    own_asof = has_asof(query) and not typer.spark_joins_asof
    asked = rewrite_asof(written_out or query) if own_asof else written_out or query
    sql = rewrite_windows(asked)
    forbidden = []
    for function, place in forbidden_functions(query):
        length = tokenize(query[place.offset :])[0].end
        forbidden.append(NonDeterministic(function, name).at(query, place.offset, length))
        if function not in CLOCK:
            raise forbidden[-1]
    reads = tuple(_known(each, shapes).name for each in relations_of(query))
    known = {each.lower(): shapes[each.lower()] for each in reads}
    names = _names_as_written(query, typer, known) if written_out else None
    is_far = False
    try:
        output = analyse(asked, sql, typer, known)
    except (ColumnOutOfReach, UnknownRelation) as refusal:
        output, is_far = _planned_output(sql, around, refusal), True
    if names is not None:
        sql, output = _renamed(sql, output, names)
    if is_far and policy is RefreshPolicy.FULL:
        raise CorrelatedTooFar("refresh_policy is full")
    if not is_stored and not is_far:
        _refuse_tables_beside(query, typer)
    if not is_stored:
        _refuse_unfinished_times(name, query, sql, typer)
    shape = _shape(name, output)
    if any(each.chars for each in known.values()):
        if is_far:
            raise CorrelatedTooFar("it reads a relation with CHAR columns")
        shape = replace(shape, chars=typer.chars_of(sql))
    if not is_stored:
        _refuse_unstorable(shape)
    typer.declare(shape)
    every = emission.every_us
    if forbidden and policy is RefreshPolicy.FULL:
        raise forbidden[0]
    if policy is RefreshPolicy.FULL and own_asof:
        raise NotSupported("ASOF JOIN with refresh_policy = full", "leave refresh_policy out")
    if policy is RefreshPolicy.FULL:
        if emission.is_bounded:
            hint = "leave refresh_policy out: only windows that are kept up to date can close"
            raise NotSupported(f"{clause_of(emission)} with refresh_policy = full", hint)
        _refuse_order_dependent(name, sql)
        why = "refresh_policy is full"
        return compile_full(shape, sql, reads, Reason.REQUESTED, why, every_us=every)
    try:
        return _incremental(shape, sql, around, emission, clocked=bool(forbidden))
    except NoRule as missing:
        if forbidden:
            raise forbidden[0] from missing
        if missing.reason is Reason.NON_DETERMINISTIC:
            raise NonDeterministic(missing.detail, name) from missing
        if policy is RefreshPolicy.INCREMENTAL:
            raise NotIncremental(name, missing.reason, missing.detail) from missing
        if emission.is_bounded:
            raise NoWindow(
                name, clause_of(emission), f"its query has no rule: {missing.detail}"
            ) from missing
        if own_asof:
            what = f"this ASOF JOIN: {missing.detail}"
            raise NotSupported(what, "join on equal keys and a time") from missing
        if is_far:
            raise CorrelatedTooFar(missing.detail) from missing
        _refuse_order_dependent(name, sql)
        return compile_full(shape, sql, reads, missing.reason, missing.detail, every_us=every)


def _planned_output(sql: str, around: Surroundings, refusal: SqlError) -> list[tuple[str, str]]:
    """Return columns and types of a query that reads columns two or more queries further out.

    Spark analyses no such query. Here it is planned like any other; for all else Spark is right.
    """
    try:
        if not nests_twice(parse_query(sql)):
            raise refusal
        lowered = _lowered(sql, around)
        types = around.typer.types(lowered.node)
    except SPARK_FAILS:
        raise refusal from None
    except NoRule as missing:
        if missing.reason is Reason.UNRESOLVED_NAME:
            raise refusal from None
        raise CorrelatedTooFar(missing.detail) from missing
    return [
        (name, types[each]) for name, each in zip(lowered.names, lowered.node.columns, strict=True)
    ]


def _names_as_written(query: str, typer: Analyzer, shapes: Mapping[str, Shape]) -> list[str] | None:
    """Let Spark check a query with its calls of functions; return how it calls the columns.

    None where Spark knows the functions, and not what they are used in: written out, they are
    expressions like others.
    """
    asked = query if typer.spark_joins_asof else rewrite_asof(query)
    try:
        return [name for name, _ in typer.of_query(rewrite_windows(asked))]
    except SPARK_FAILS as error:
        if is_only_unfit_place(error):
            return None
        found = explain_refusal(error, shapes, typer.functions)
        raise pointed(found, error, query, rewrite_windows(asked)) from None


def _renamed(
    sql: str, output: list[tuple[str, str]], names: list[str]
) -> tuple[str, list[tuple[str, str]]]:
    if names == [name for name, _ in output]:
        return sql, output
    listed = ", ".join(map(backquoted, names))
    kinds = [kind for _, kind in output]
    return f"SELECT * FROM (\n{sql}\n) AS __q({listed})", list(zip(names, kinds, strict=True))


def clause_of(emission: Emission) -> str:
    """Return the clause that bounds how late rows may be, for messages."""
    if emission.closes:
        return "EMIT FINAL" if emission.mode == Mode.FINAL else "EMIT AFTER WATERMARK"
    return "ALLOW LATENESS"


def _refuse_tables_beside(query: str, typer: Analyzer) -> None:
    """Refuse functions of Spark's catalog that read tables: nobody tells when these change."""
    asked, left = set[str](), [query]
    while left:
        for name in _foreign_calls(left.pop(), typer) - asked:
            asked.add(name)
            body = typer.body_of(name)
            if body and relations_of(
                body if starts_query(Cursor(body, tokenize(body))) else f"SELECT {body}"
            ):
                hint = "read the tables in the view itself, as relations of the database"
                raise NotSupported(f"a function that reads tables: {name}", hint)
            left.append(body)


def _foreign_calls(text: str, typer: Analyzer) -> set[str]:
    called = {
        word.value.upper()
        for word, after in pairwise(tokenize(text))
        if word.kind in (Kind.WORD, Kind.QUOTED) and after.is_symbol("(")
    }
    return {each.lower() for each in called - _NO_CALLS} - typer.built_in()


def _refuse_unfinished_times(name: str, query: str, sql: str, typer: Analyzer) -> None:
    """Refuse strings that stand for another time tomorrow, such as 'now' and '09:00'."""
    for text, start, end in unfinished_times(query):
        if typer.reads_as_time(sql, text):
            raise NonDeterministic(f"the time '{text}'", name).at(query, start, end - start)


def _refuse_order_dependent(name: str, sql: str) -> None:
    """Refuse what Spark itself answers differently from run to run."""
    try:
        found = takes_one_row(parse_query(sql))
    except NoRule:
        return  # it cannot be read here; Spark runs it as it is written
    if found is not None:
        raise NonDeterministic(f"{found} in no order", name)


def _incremental(
    shape: Shape, sql: str, around: Surroundings, emission: Emission, *, clocked: bool
) -> Program:
    closer = Closer(
        shape.name,
        around.timings,
        emission.lateness_us or 0,
        closes=emission.closes,
        final=emission.mode == Mode.FINAL,
        zone=around.typer.time_zone,
    )
    try:
        lowered = _lowered(sql, around)
        node = lowered.node
        if _folded(lowered.chars) != _folded(shape.chars):
            raise NoRule(Reason.LOWERING_CHANGED_TYPES, "which columns are CHAR")
        if clocked and re.search(r"\b(NOW|CURRENT_TIMESTAMP)\(", repr(node), re.IGNORECASE):
            raise NoRule(Reason.NON_DETERMINISTIC, "now")
        if emission.is_bounded:
            node = closer.bound(node)
        with _costing_the_rule():
            program = compile_query(
                shape, node, around.typer, every_us=emission.every_us, lateness=closer.lateness
            )
        return replace(program, timing=closer.timing(node, shape.columns))
    except NotClosable as wrong:
        raise NoWindow(shape.name, clause_of(emission), str(wrong)) from wrong
    except SPARK_FAILS as error:
        # Our own rendering was refused: say so, and let the query run as the user wrote it.
        raise NoRule(Reason.LOWERING_FAILED, first_sentence(error)) from error


def _folded(chars: Chars) -> Chars:
    return tuple((name.lower(), length) for name, length in chars)


def _lowered(sql: str, around: Surroundings) -> Lowered:
    relations = {each.name: each.columns for each in around.shapes.values()}
    times = times_of(around.timings)
    if around.typer.unplanned:
        raise NoRule(Reason.SPARK_SETTING, around.typer.unplanned)
    if around.typer.spark_joins_asof and has_asof(sql):
        raise NoRule(Reason.SPARK_SETTING, "ASOF JOIN is Spark's")
    with _costing_the_rule():
        chars = {name: each.chars for name, each in around.shapes.items() if each.chars}
        return lower(parse_query(sql), relations, around.typer, times, around.tables, chars)


@contextmanager
def _costing_the_rule() -> Iterator[None]:
    """Let Spark run a query as it is: what a rule of ours did not expect is no user's mistake."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as stumbled:
        detail = f"planning stumbled: {type(stumbled).__name__}: {stumbled}"
        raise NoRule(Reason.LOWERING_FAILED, detail) from stumbled


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


def _refuse_unstorable(shape: Shape) -> None:
    """Raise for intervals of months and days at once, which no row of a file can hold."""
    for column, kind in zip(shape.columns, shape.types, strict=True):
        if _CALENDAR.search(kind):
            hint = "cast it to STRING, or use INTERVAL DAY TO SECOND or YEAR TO MONTH"
            raise NotSupported(f'"{column}" of type {kind.upper()} in a view', hint)


def refuse_own_columns(names: Iterable[str]) -> None:
    """Raise if a column is called like one of those that carry weights and accumulators."""
    for name in names:
        if name.startswith("__"):
            hint = "choose a name that does not start with two underscores"
            raise NotSupported(f'the column "{name}"', hint)


def analyse(
    query: str, sql: str, typer: Analyzer, shapes: Mapping[str, Shape]
) -> list[tuple[str, str]]:
    """Let Spark's analyzer check a query, which is `sql` in its words; return columns and types."""
    try:
        return typer.of_query(sql)
    except SPARK_FAILS as error:
        found = explain_refusal(error, shapes, typer.functions)
        raise pointed(found, error, query, sql) from None
