"""From a script to statements. Nothing unknown passes: it is refused where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from laminar.errors import nearest
from laminar.errors.sql import SqlSyntaxError
from laminar.sql import create, dml, manage, merge, query, schema_statements
from laminar.sql.cursor import Cursor
from laminar.sql.statements import Statement
from laminar.sql.tokens import Token, tokenize

STATEMENTS: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE": create.take_create,
    "DROP": manage.take_drop,
    "ALTER": manage.take_alter,
    "PAUSE": manage.take_pause,
    "RESUME": manage.take_resume,
    "REFRESH": manage.take_refresh,
    "INSERT": dml.take_insert,
    "DELETE": dml.take_delete,
    "UPDATE": dml.take_update,
    "MERGE": merge.take_merge,
    **dict.fromkeys(query.STARTS, query.take_query),
    "EXPLAIN": manage.take_explain,
    "SHOW": manage.take_show,
    "DESCRIBE": manage.take_describe,
    "DESC": manage.take_describe,
    "CHECKPOINT": manage.take_checkpoint,
    "RESTORE": manage.take_restore,
    "SET": manage.take_set,
    "RESET": manage.take_reset,
    "USE": schema_statements.take_use,
}
"""First word -> how the statement is read."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}


def parse_script(text: str) -> list[Statement]:
    """Return the statements of a script, in order; they are separated by semicolons."""
    return [_statement(text, tokens) for tokens in _split(tokenize(text))]


def parse_statement(text: str) -> Statement:
    """Return the one statement that a text holds."""
    statements = parse_script(text)
    if not statements:
        raise SqlSyntaxError("there is no statement here").at(text, 0)
    if len(statements) > 1:
        second = statements[1]
        raise SqlSyntaxError(
            "more than one statement where one is expected", hint="run it as a script"
        ).at(text, second.location.offset, len(second.text.split(None, 1)[0]))
    return statements[0]


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    # A semicolon inside brackets ends the statement too: it can mean nothing else there, and the
    # bracket that is then missing is reported where it opened.
    current: list[Token] = []
    for token in tokens:
        if not token.is_symbol(";"):
            current.append(token)
        elif current:
            yield current
            current = []
    if current:
        yield current


def _statement(text: str, tokens: Sequence[Token]) -> Statement:
    cursor = Cursor(text, tokens)
    take = STATEMENTS.get(cursor.peek().upper)
    if take is None:
        _unknown(cursor)
    _require_balance(cursor)
    statement = take(cursor)
    cursor.finish()
    return statement


def _unknown(cursor: Cursor) -> NoReturn:
    words = [word for word in STATEMENTS if word.isalpha()]
    meant = nearest(cursor.peek().text, words)
    hint = f"did you mean {meant}?" if meant else f"statements start with {', '.join(words)}"
    cursor.fail(f'"{cursor.peek().text}" starts no statement', hint=hint)


def _require_balance(cursor: Cursor) -> None:
    opened: list[Token] = []
    for token in cursor.tokens:
        if token.upper in _CLOSING:
            opened.append(token)
        elif token.upper in _CLOSING.values():
            if not opened:
                cursor.fail(f'"{token.text}" closes nothing', hint="remove it", token=token)
            opening = opened.pop()
            if _CLOSING[opening.text] != token.text:
                missing = _CLOSING[opening.text]
                cursor.fail(f'"{token.text}" stands where "{missing}" is missing', token=token)
    if opened:
        missing = _CLOSING[opened[-1].text]
        cursor.fail(f'"{opened[-1].text}" is never closed', hint=f"add {missing}", token=opened[-1])
