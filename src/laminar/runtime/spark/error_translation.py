"""What Spark refuses, in our words: which name is wrong, where it stands, what it may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from laminar.delta.program import Shape
from laminar.errors import (
    ColumnOutOfReach,
    InvalidQuery,
    SqlError,
    SqlSyntaxError,
    UnknownColumn,
    UnknownFunction,
    UnknownRelation,
    sentences,
)
from laminar.sql.tokens import tokenize

SPARK_FAILS = (PySparkException, Py4JJavaError)
"""What Spark raises; the second where PySpark does not translate."""

START_FAILS = (PySparkException, Py4JError)
"""What starting Spark raises; the second also if Java is gone before it has answered."""

_PART = re.compile(r"`((?:[^`]|``)*)`")
_PARSED_AT = re.compile(r"\(line (\d+), pos (\d+)\)")

_OF_A_FUNCTION = re.compile(r"\[laminar function ([^\]\n]+)\] ([^\n]*)")
"""How a function that the user registered says that it failed; see `session_functions`."""

Functions = Callable[[], Iterable[str]]
"""Asks for the names of all functions; only where one is wrong, because Spark must be asked."""


def explain_refusal(
    error: BaseException, shapes: Mapping[str, Shape], functions: Functions = tuple
) -> SqlError:
    """Turn a refusal of Spark's into an error that suggests what to do."""
    facts = _parameters(error)
    condition = _condition(error)
    if condition.startswith("UNRESOLVED_COLUMN"):
        return _unknown_column(facts, shapes)
    if condition == "FIELD_NOT_FOUND":
        return UnknownColumn(_parts(facts["fieldName"])[-1], _parts(facts["fields"]))
    if condition in ("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
        name = _parts(facts.get("routineName") or facts["name"])[-1]
        return UnknownFunction(name, functions())
    if condition == "PARSE_SYNTAX_ERROR":
        hint = "check the query for a missing comma, bracket or keyword"
        return SqlSyntaxError(f"the query cannot be read at {facts['error']}", hint=hint)
    return InvalidQuery("this query cannot run", first_sentence(error))


def is_gone(error: BaseException) -> bool:
    """Whether a file was removed between planning a query and running it."""
    try:
        told = str(error)  # with all its causes and their classes
    except Exception:  # of a Java that is gone
        return False
    return any(sign in told for sign in ("FILE_NOT_EXIST", "FileNotFoundException"))


def _unknown_column(facts: Mapping[str, str], shapes: Mapping[str, Shape]) -> SqlError:
    *owner, column = _parts(facts["objectName"])
    offered = [_parts(each) for each in facts.get("proposal", "").split(", ") if each]
    known = {name for shape in shapes.values() for name in shape.columns}
    known |= {parts[-1] for parts in offered}
    if owner and column.casefold() in {name.casefold() for name in known}:
        # The column is there; it is what stands before the dot that nobody knows.
        if owner[-1].casefold() in shapes:
            return ColumnOutOfReach(column, owner[-1])
        owners = {parts[-2] for parts in offered if len(parts) > 1}
        return UnknownRelation(owner[-1], sorted(owners))
    if not owner and column.casefold() in {name.casefold() for name in known}:
        return ColumnOutOfReach(column)
    return UnknownColumn(column, sorted(known))


def pointed(found: SqlError, error: BaseException, query: str, sent: str) -> SqlError:
    """Make an error point into the user's query.

    Args:
        found: the error to raise.
        error: what Spark raised.
        query: as the user wrote it.
        sent: as Spark was given it; our window functions are in Spark's words there.
    """
    place = _fragment(error, sent)
    if place is None:
        return found
    start, text = place
    # The same words stand in both, in the same order: the n-th in one is the n-th in the other.
    earlier = sent.count(text, 0, start)
    at = -1
    for _ in range(earlier + 1):
        at = query.find(text, at + 1)
        if at < 0:
            return found
    name = getattr(found, "name", "")
    inside = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) if name else None
    if inside is not None:
        return found.at(query, at + inside.start(), len(name))
    return found.at(query, at, len(text))


def _fragment(error: BaseException, sent: str) -> tuple[int, str] | None:
    """Return what Spark points at: its offset and its text."""
    if not isinstance(error, PySparkException):
        return None
    for context in error.getQueryContext() or ():
        start, text = context.startIndex(), context.fragment()
        # Contexts of other texts, such as a view's, are of no use here.
        if text and sent[start : start + len(text)] == text:
            return start, text
    parsed = _PARSED_AT.search(str(error))
    if parsed is None:
        return None
    lines = sent.split("\n")
    line, column = int(parsed[1]), int(parsed[2])
    if not 1 <= line <= len(lines):
        return None
    offset = sum(len(each) + 1 for each in lines[: line - 1]) + column
    for token in tokenize(sent):
        if token.start <= offset < token.end:
            return token.start, token.text
    return None


def _condition(error: BaseException) -> str:
    return (error.getCondition() or "") if isinstance(error, PySparkException) else ""


def _parameters(error: BaseException) -> Mapping[str, str]:
    return (error.getMessageParameters() or {}) if isinstance(error, PySparkException) else {}


def _parts(name: str) -> list[str]:
    """Return the parts of a name as Spark quotes it, without the quotes."""
    return [part.replace("``", "`") for part in _PART.findall(name)] or [name]


def first_sentence(error: BaseException) -> str:
    """Return what an error says, without the plan and the stack below it."""
    message = _message(error)
    told = _OF_A_FUNCTION.findall(message)
    if told:
        name, what = told[-1]
        return f"function {name} raised {what.strip()}"
    return sentences.first_sentence(message)


def is_only_unfit_place(error: BaseException) -> bool:
    """Whether Spark refuses a function of the user's only for where it is called."""
    unfit = ("UNSUPPORTED_SQL_UDF_USAGE", "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_SQL_UDF")
    return _condition(error) in unfit


def _message(error: BaseException) -> str:
    """Return what an error says; one of Java's is asked in Java, which may be gone by now."""
    try:
        return _told_by(error)
    except Exception:
        return type(error).__name__


def _told_by(error: BaseException) -> str:
    """Return what an error says; one that Java raised is asked for its cause."""
    if not isinstance(error, Py4JJavaError):
        return str(error)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.getClass().getSimpleName())
