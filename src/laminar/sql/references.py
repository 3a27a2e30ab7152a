"""Which relations a query reads."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

from laminar.errors.base import did_you_mean
from laminar.errors.sql import NotSupported, SqlError, SqlSyntaxError
from laminar.sql.asof import as_joins
from laminar.sql.cursor import Cursor, joined
from laminar.sql.dialect import AsWritten
from laminar.sql.keywords import keywords
from laminar.sql.pipes import without_pipes
from laminar.sql.query import STARTS, refuse_streams, starts_query
from laminar.sql.readable import readable
from laminar.sql.tokens import tokenize

_TYPES = keywords(
    "ARRAY BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT INTERVAL MAP SMALLINT STRING STRUCT"
    " TIMESTAMP TIMESTAMP_NTZ TINYINT VARIANT"
)
_TIME_TRAVEL = "read an older epoch with SELECT ... FROM v AS OF EPOCH n"


def relations_of(query: str) -> tuple[str, ...]:
    """Return the names of what a query reads, each once, in order of appearance.

    The query is as a user writes it, with what only we can read. Names keep their spelling; two
    that differ only in case are one. Names of common table expressions are left out where they are
    visible, and only there. A name of one part is that part, dots in it or not: an identity.
    """
    found: dict[str, str] = {}
    for table in _tables(_tree(query)):
        name = _name_of(table)
        found.setdefault(name.casefold(), name)
    return tuple(found.values())


def _tree(query: str) -> exp.Expr:
    cursor = Cursor(query, tokenize(query))
    if not starts_query(cursor):
        cursor.unexpected(*STARTS)
    refuse_streams(cursor, 0)
    try:
        text = readable(without_pipes(as_joins(query)).text)
        trees = sqlglot.parse(text, read=AsWritten, error_level=ErrorLevel.IMMEDIATE)
    except RecursionError:
        raise SqlSyntaxError("the query is nested too deeply", hint="split it up") from None
    except SqlglotError as error:
        raise _explained(query, error) from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Query | exp.Values) or tree.find(exp.Command) is not None:
        raise SqlSyntaxError("this is not a query", hint="write SELECT ...").at(query, 0)
    return tree


def _tables(root: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables of a tree from left to right, but no common table expressions.

    Law: an expression sees those before it in its WITH, itself only if that is RECURSIVE, and
    all that the query around it sees.
    """
    # A stack and not recursion: a sum of a thousand terms is a tree a thousand deep.
    stack: list[tuple[exp.Expr, frozenset[str]]] = [(root, frozenset())]
    while stack:
        node, visible = stack.pop()
        if isinstance(node, exp.Table):
            if not isinstance(node.this, exp.Identifier):
                _refuse_hidden(node.this)
            elif node.args.get("db") or node.name.casefold() not in visible:
                yield node
        stack.extend(reversed(list(_below(node, visible))))


def _below(node: exp.Expr, visible: frozenset[str]) -> Iterator[tuple[exp.Expr, frozenset[str]]]:
    """Yield the children of a node with the common table expressions that each of them sees."""
    with_ = node.args.get("with_")
    if isinstance(with_, exp.With):
        for cte in with_.expressions:
            name = frozenset({cte.alias.casefold()})
            yield cte.this, visible | name if with_.args.get("recursive") else visible
            visible |= name
    for key, value in node.args.items():
        for child in value if isinstance(value, list) else [value]:
            if key != "with_" and isinstance(child, exp.Expr):
                yield child, visible


def _name_of(table: exp.Table) -> str:
    if table.args.get("version") is not None:
        raise NotSupported("VERSION AS OF and TIMESTAMP AS OF", _TIME_TRAVEL)
    parts = [part.name for part in table.parts]
    return parts[0] if len(parts) == 1 else joined(parts)


def _refuse_hidden(call: exp.Expr) -> None:
    """Refuse tables that are named by something else than their name: they would be missed."""
    names = {str(each.this).upper() for each in call.find_all(exp.Anonymous)}
    if names & {"IDENTIFIER", "TABLE"}:
        raise NotSupported("a table as an argument of a function", "read it in FROM by its name")


def _explained(query: str, error: SqlglotError) -> SqlError:
    hint = "check the query for a missing comma, bracket or keyword"
    first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    line, column = first.get("line"), first.get("col")
    if line is None or column is None:
        return SqlSyntaxError("the query cannot be read", hint=hint).at(query, 0)
    word = first.get("highlight") or ""
    if "type" in str(first.get("description")).lower():
        hint = did_you_mean(word, _TYPES) or hint
    starts = [0, *(at + 1 for at, char in enumerate(query) if char == "\n")]
    offset = starts[min(line, len(starts)) - 1] + max(0, column - len(word))
    if not query.startswith(word, offset):
        # What sqlglot was given is a little longer here and there: the word stands further left.
        offset = max(query.rfind(word, 0, offset), 0)
    message = f'the query cannot be read at "{word}"' if word else "the query cannot be read"
    return SqlSyntaxError(message, hint=hint).at(query, min(offset, len(query)), len(word))
