"""CREATE FUNCTION of an expression, and DROP FUNCTION."""

from __future__ import annotations

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.function_calls import Parameter
from laminar.sql.statements import CreateFunction, DropFunction
from laminar.sql.table_columns import take_type

_A_FUNCTION = "the name of a function"
_OTHER_CODE = {
    "AS": "write RETURN and an expression, or use db.register_function for Python",
    "NOT": "leave it out: a function must be deterministic",
    "READS": "write an expression over the parameters alone",
    "SQL": "leave it out",
    "USING": "use db.register_function for Python",
}


def take_function(cursor: Cursor, start: int, *, or_replace: bool) -> CreateFunction:
    """Take what follows CREATE [OR REPLACE] FUNCTION."""
    cursor.expect("FUNCTION")
    token = cursor.peek()
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        cursor.fail("OR REPLACE and IF NOT EXISTS exclude each other", token=token)
    name = cursor.name(_A_FUNCTION)
    parameters = _parameters(cursor)
    returns, comment = _characteristics(cursor)
    cursor.expect("RETURN")
    if cursor.looks_at("SELECT") or cursor.looks_at("WITH"):
        hint = "write an expression over the parameters; read tables in a view"
        raise cursor.here(NotSupported("a function that returns a query", hint))
    place = cursor.location()
    body = cursor.rest("an expression")
    return CreateFunction(
        name,
        parameters,
        returns,
        body,
        comment,
        or_replace,
        if_not_exists,
        body_location=place,
        **cursor.origin(start),
    )


def take_drop_function(cursor: Cursor, start: int) -> DropFunction:
    """Take what follows DROP."""
    cursor.expect("FUNCTION")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(_A_FUNCTION)
    cascade = cursor.accept("CASCADE")
    if not cursor.done():
        cursor.unexpected("CASCADE")
    return DropFunction(name, if_exists, cascade, **cursor.origin(start))


def _parameters(cursor: Cursor) -> tuple[Parameter, ...]:
    cursor.expect("(")
    found: list[Parameter] = []
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        found.append(_parameter(cursor, [each.name.casefold() for each in found]))
    return tuple(found)


def _parameter(cursor: Cursor, known: list[str]) -> Parameter:
    token = cursor.peek()
    name = cursor.identifier("the name of a parameter")
    if name.casefold() in known:
        cursor.fail(f'parameter "{name}" is declared twice', token=token)
    kind = take_type(cursor)
    if cursor.looks_at("NOT") or cursor.looks_at("COMMENT"):
        raise cursor.here(NotSupported(f"{cursor.peek().upper} of a parameter", "leave it out"))
    default = None
    if cursor.accept("DEFAULT"):
        default = cursor.expression("a value", ",", ")")
    return Parameter(name, kind, default)


def _characteristics(cursor: Cursor) -> tuple[str, str]:
    """Take what stands between the parameters and RETURN; return the type and the comment."""
    returns = comment = ""
    while not cursor.looks_at("RETURN"):
        if cursor.looks_at("RETURNS", "TABLE"):
            hint = "return one value; write a view for rows"
            raise cursor.here(NotSupported("a function that returns a TABLE", hint))
        if not returns and cursor.accept("RETURNS"):
            returns = take_type(cursor)
        elif not comment and cursor.accept("COMMENT"):
            comment = _text(cursor)
        elif cursor.peek().upper in _OTHER_CODE:
            word = cursor.peek().upper
            raise cursor.here(NotSupported(f"{word} in a function", _OTHER_CODE[word]))
        elif cursor.looks_at("LANGUAGE") and not cursor.looks_at("LANGUAGE", "SQL"):
            hint = "use db.register_function for Python"
            raise cursor.here(NotSupported("a LANGUAGE other than SQL", hint))
        elif not _is_said_anyway(cursor):
            cursor.unexpected("RETURNS", "RETURN")
    return returns, comment


def _is_said_anyway(cursor: Cursor) -> bool:
    """Take what is true of every function here."""
    return (
        cursor.accept("LANGUAGE", "SQL")
        or cursor.accept("DETERMINISTIC")
        or cursor.accept("CONTAINS", "SQL")
    )


def _text(cursor: Cursor) -> str:
    token = cursor.next()
    if not token.text or token.text[-1] not in "'\"":
        cursor.at -= 1
        cursor.unexpected("a string")
    return token.value
