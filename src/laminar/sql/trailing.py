"""What may follow the query of a view: EMIT, ALLOW LATENESS, LATE DATA TO."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.sql.cursor import Cursor
from laminar.sql.intervals import take_interval
from laminar.sql.keywords import keywords
from laminar.sql.statements import Emit, EmitKind
from laminar.sql.tokens import Kind, Token

_EMIT_WORDS = ("AFTER", "CHANGES", "FINAL", "ON", "PERIODICALLY")

# After one of these an operand follows, so that EMIT there is the name of a column or table.
_BEFORE_OPERAND = keywords(
    "SELECT DISTINCT ALL FROM JOIN ON WHERE AND OR NOT BY HAVING AS IN LIKE ILIKE RLIKE BETWEEN IS"
    " THEN ELSE WHEN CASE UNION EXCEPT INTERSECT MINUS LIMIT OFFSET QUALIFY USING LATERAL VIEW WITH"
    " VALUES TABLE OVER INTERVAL ESCAPE DIV"
)
_AFTER_ALIAS = keywords(
    "FROM WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW QUALIFY JOIN INNER"
    " LEFT RIGHT FULL CROSS OUTER SEMI ANTI NATURAL ON USING UNION EXCEPT INTERSECT MINUS LATERAL"
    " PIVOT UNPIVOT TABLESAMPLE AND OR NOT IN IS LIKE ILIKE RLIKE BETWEEN AS ASC DESC NULLS THEN"
    " ELSE WHEN END DIV"
)


@dataclass(frozen=True, slots=True)
class Trailing:
    """The clauses after a query."""

    emit: Emit | None = None
    lateness: str | None = None
    late_data_to: str | None = None


def find_trailing(cursor: Cursor, start: int) -> int:
    """Return where the clauses after the query begin; the end if there are none.

    Law: a query in which `emit`, `allow` or `late` is merely a name is left whole.
    """
    depth = 0
    probe = Cursor(cursor.text, cursor.tokens)
    for place in range(start, len(cursor.tokens)):
        token = cursor.tokens[place]
        depth += (token.upper in ("(", "[")) - (token.upper in (")", "]"))
        if depth == 0 and place > start and _ends_operand(cursor.tokens[place - 1]):
            probe.at = place
            if _is_clause(probe):
                return place
    return len(cursor.tokens)


def take_trailing(cursor: Cursor) -> Trailing:
    """Take the clauses; each at most once, in any order, and nothing else."""
    emit: Emit | None = None
    lateness = late_data_to = None
    while not cursor.done():
        token = cursor.peek()
        clause = cursor.one_of("EMIT", "ALLOW", "LATE")
        if clause == "EMIT" and emit is None:
            emit = _emit(cursor)
        elif clause == "ALLOW" and lateness is None:
            cursor.expect("LATENESS")
            lateness = take_interval(cursor)
        elif clause == "LATE" and late_data_to is None:
            cursor.expect("DATA", "TO")
            late_data_to = cursor.name("the name of a view for late rows")
        else:
            cursor.fail(f"{clause} is given twice", hint="remove one of them", token=token)
    return Trailing(emit, lateness, late_data_to)


def _emit(cursor: Cursor) -> Emit:
    if cursor.accept("PERIODICALLY"):
        return Emit(EmitKind.PERIODICALLY, take_interval(cursor))
    if cursor.accept("ON"):
        if cursor.one_of("UPDATE", "WINDOW") == "UPDATE":
            return Emit(EmitKind.ON_UPDATE)
        cursor.expect("CLOSE")
        return Emit(EmitKind.ON_WINDOW_CLOSE)
    word = cursor.one_of(*_EMIT_WORDS)
    if word == "AFTER":
        cursor.expect("WATERMARK")
        return Emit(EmitKind.AFTER_WATERMARK)
    return Emit(EmitKind(word))


def _is_clause(cursor: Cursor) -> bool:
    if cursor.looks_at("ALLOW", "LATENESS") or cursor.looks_at("LATE", "DATA"):
        return True
    if not cursor.looks_at("EMIT"):
        return False
    follows = cursor.peek(1)
    if follows.upper == "ON":
        # JOIN b emit ON update.id = a.id: there, emit is an alias.
        compared = cursor.peek(3).kind is Kind.SYMBOL
        return cursor.peek(2).is_word("UPDATE", "WINDOW") and not compared
    # A bare EMIT, or one with an unknown word, is a clause gone wrong rather than an alias:
    # as an alias it would say nothing, and the mistake would pass.
    is_alias = follows.upper in _AFTER_ALIAS or follows.kind in (Kind.SYMBOL, Kind.STRING)
    return not is_alias


def _ends_operand(token: Token) -> bool:
    if token.kind is Kind.SYMBOL:
        return token.text in (")", "]")
    return token.upper not in _BEFORE_OPERAND
