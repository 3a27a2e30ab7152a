"""What changed between two epochs, as a relation of a query.

    table_changes('v', 3)    table_changes('v', 3, 7)
    v CHANGES FROM VERSION 3 [INCLUSIVE | EXCLUSIVE] [TO VERSION 7 [INCLUSIVE | EXCLUSIVE]]

The first is how Delta Lake spells it, the second Spark itself. Versions are epochs, EPOCH says the
same as VERSION, and both ends count unless told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from laminar.errors.sql import NotSupported
from laminar.model.quoting import unquoted
from laminar.sql.cursor import Cursor
from laminar.sql.time_travel import is_alias
from laminar.sql.tokens import Kind, Token, tokenize

FUNCTION = "TABLE_CHANGES"


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """Changes of a relation from one epoch to another, and the name a query reads them under."""

    bound: str
    relation: str
    first: int
    last: int | None


@dataclass(frozen=True, slots=True)
class _Found:
    """The tokens of one such place, and what they say."""

    start: int
    stop: int
    relation: str
    first: int
    last: int | None


def refuse_changes(cursor: Cursor, start: int) -> None:
    """Raise if a query that is not the user's own asks for changes."""
    probe = Cursor(cursor.text, cursor.tokens)
    for place in range(start, len(cursor.tokens)):
        probe.at = place
        if probe.looks_at(FUNCTION, "(") or _is_clause(probe):
            hint = "only a SELECT of its own can read them; views follow changes by themselves"
            raise cursor.here(NotSupported("changes of a relation here", hint), probe.peek())


def name_changes(query: str) -> tuple[str, tuple[ChangeRange, ...]]:
    """Return the query with every range of changes under a name of its own, and the ranges."""
    if "changes" not in query.lower():
        return query, ()
    cursor = Cursor(query, tokenize(query))
    ranges: dict[str, ChangeRange] = {}
    kept, at = [], 0
    for found in _places(cursor):
        until = "" if found.last is None else f" to {found.last}"
        plain = found.relation.replace("`", " ")
        bound = f"changes of {plain} from {found.first}{until}"
        ranges[bound] = ChangeRange(bound, found.relation, found.first, found.last)
        after = cursor.tokens[found.stop] if found.stop < len(cursor.tokens) else None
        own = found.relation.rpartition(".")[2].replace("`", "")
        alias = "" if is_alias(after) else f" AS `{own}`"
        kept += [query[at : cursor.tokens[found.start].start], f"`{bound}`{alias}"]
        at = cursor.tokens[found.stop - 1].end
    return "".join([*kept, query[at:]]), tuple(ranges.values())


def _places(cursor: Cursor) -> list[_Found]:
    found: list[_Found] = []
    place = 0
    while place < len(cursor.tokens):
        cursor.at = place
        if cursor.accept(FUNCTION, "("):
            found.append(_call(cursor, place))
        elif _is_clause(cursor):
            found.append(_clause(cursor, place))
        place = max(place + 1, found[-1].stop if found else 0)
    return found


def _is_clause(cursor: Cursor) -> bool:
    """Whether CHANGES FROM VERSION comes next, after the name of a relation."""
    versions = cursor.peek(2).is_word("VERSION", "EPOCH")
    return cursor.looks_at("CHANGES", "FROM") and versions and cursor.at > 0


def _call(cursor: Cursor, start: int) -> _Found:
    if cursor.peek().kind is not Kind.STRING:
        cursor.unexpected("the name of a relation in quotes")
    relation = cursor.next().value
    cursor.expect(",")
    first = cursor.integer("the first epoch")
    token = cursor.peek(1)
    last = cursor.integer("the last epoch") if cursor.accept(",") else None
    cursor.expect(")")
    _require_order(cursor, first, last, token)
    return _Found(start, cursor.at, relation, first, last)


def _clause(cursor: Cursor, place: int) -> _Found:
    start = place - 1
    while start >= 2 and cursor.tokens[start - 1].is_symbol("."):
        start -= 2
    cursor.at = start
    relation = unquoted(cursor.name("the name of a relation"))
    cursor.expect("CHANGES", "FROM")
    cursor.one_of("VERSION", "EPOCH")
    first = written = cursor.integer("the first epoch")
    first += cursor.accept("EXCLUSIVE")
    cursor.accept("INCLUSIVE")
    last = None
    if cursor.accept("TO"):
        cursor.one_of("VERSION", "EPOCH")
        token = cursor.peek()
        last = cursor.integer("the last epoch")
        _require_order(cursor, written, last, token)
        last -= cursor.accept("EXCLUSIVE")
        cursor.accept("INCLUSIVE")
    return _Found(start, cursor.at, relation, first, last)


def _require_order(cursor: Cursor, first: int, last: int | None, token: Token) -> None:
    """Raise at the last epoch if it comes before the first: nothing could have changed there."""
    if last is not None and last < first:
        hint = f"write the earlier one first: {last}, then {first}"
        cursor.fail(f"the last epoch, {last}, comes before the first", hint=hint, token=token)
