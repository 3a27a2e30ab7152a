"""A query with every relation under its identity, as one part: it means the same from anywhere.

    SELECT s.t.x FROM s.t JOIN u ON t.k = u.k      is, where `r` is the current schema,
    SELECT t.x FROM `s.t` AS t JOIN `r.u` AS u ON t.k = u.k

Columns are qualified by an alias, the relation's last name, as in Spark. If a query qualifies a
column by a schema, and two of its names are alike but for that, the alias is both: `s.t`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from laminar.errors.base import LaminarError
from laminar.errors.sql import NotSupported, SqlError
from laminar.model.quoting import backquoted, string_literal
from laminar.sql.calls import calls_of
from laminar.sql.cursor import joined
from laminar.sql.name_places import Block, Call, Column, Item, NamePlaces
from laminar.sql.references import relations_of
from laminar.sql.reserved_words import quoted_names
from laminar.sql.schemas import (
    CATALOG,
    DEFAULT,
    Names,
    last_of,
    parts_of,
    schema_of,
    written_in_full,
)
from laminar.sql.system import SYSTEM
from laminar.sql.table_changes import FUNCTION, name_changes
from laminar.sql.tokens import Kind, Token, tokenize

_E = TypeVar("_E", bound=LaminarError)
_OF_THE_SESSION = ("current_schema", "current_database", "current_catalog")


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters of a text, from a place to another, and what stands for them."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text after some edits, and the one before."""

    text: str
    before: str
    edits: tuple[Edit, ...] = ()

    @classmethod
    def by(cls, text: str, edits: Iterable[Edit]) -> Rewritten:
        """Apply edits that do not overlap."""
        listed = tuple(sorted(edits, key=lambda each: (each.start, each.stop)))
        kept, at = [], 0
        for each in listed:
            kept += [text[at : each.start], each.text]
            at = each.stop
        return cls("".join([*kept, text[at:]]), text, listed)

    def pointed(self, error: _E) -> _E:
        """Make an error that points into the text point into the one before."""
        if error.span is None or not self.edits:
            return error
        start, length = error.span
        first, last = self._before(start), self._before(start + max(length, 1) - 1, is_end=True)
        return error.at(self.before, first, max(1, last - first))

    def _before(self, place: int, *, is_end: bool = False) -> int:
        """Return where a character was; for an `is_end`, one past it."""
        moved = 0
        for each in self.edits:
            if place < each.start + moved:
                break
            if place < each.start + moved + len(each.text):
                return each.stop if is_end else min(each.start, max(each.stop - 1, 0))
            moved += len(each.text) - (each.stop - each.start)
        return place - moved + is_end


@dataclass(frozen=True, slots=True)
class Given:
    """A relation that an expression may qualify its columns by, and the alias that it has."""

    identity: str
    alias: str


@dataclass(slots=True)
class _Resolution:
    """One text on its way."""

    names: Names
    text: str
    tokens: Sequence[Token]
    places: NamePlaces
    identities: dict[int, str] = field(default_factory=dict)
    """Where an item starts -> its identity; those of other kinds have none."""
    given: Mapping[int, Given] = field(default_factory=dict)
    """The same of what was given."""
    shared: frozenset[str] = frozenset()
    """What two relations go by, where some column says which schema it means."""


def resolved_query(
    query: str,
    names: Names,
    own: Iterable[str] = (),
    *,
    session: bool = True,
    given: Sequence[Given] = (),
) -> Rewritten:
    """Return a query, or an expression among `given` relations, in which names are identities.

    Args:
        query: as the user wrote it.
        names: what is known.
        own: names of one part that stay as they are.
        session: whether what the session is asked, as by current_schema(), is answered.
        given: relations around an expression.
    """
    found = _found(query, names, own, given)
    relations = _relation_edits(found)
    edits = [*relations, *_column_edits(found), *_call_edits(found, session=session)]
    made = Rewritten.by(query, edits)
    if relations and not given:
        _require_same(found, made, own)
    return made


def query_in_full(query: str, names: Names) -> list[Edit]:
    """Return what makes a query name its relations with their schemas, as users write them."""
    found = _found(query, names, (), ())
    return [
        Edit(*_span(found, item), written_in_full(found.identities[item.start]))
        for item in found.places.items
        if item.start in found.identities
        and not found.identities[item.start].startswith(f"{SYSTEM}.")
    ]


def _found(query: str, names: Names, own: Iterable[str], given: Sequence[Given]) -> _Resolution:
    tokens, block = tokenize(query) if given else _marked(query), Block()
    for number, each in enumerate(given):
        place = -1 - number  # before all tokens
        block.items.append(Item(place, place, (schema_of(each.identity), last_of(each.identity))))
    found = _Resolution(names, query, tokens, NamePlaces(tokens, block))
    found.given = {-1 - number: each for number, each in enumerate(given)}
    skipped = {each.lower() for each in own}
    for item in found.places.items:
        if item.start < 0:
            found.identities[item.start] = found.given[item.start].identity
        elif item.parts and not item.is_common and ".".join(item.parts).lower() not in skipped:
            try:
                found.identities[item.start] = names.known(item.parts)
            except SqlError as error:
                if not given and len(item.parts) < 4 and not _is_read(query, item.parts):
                    continue  # a column that stands where a relation could
                start, stop = _span(found, item)
                raise error.at(query, start, stop - start) from None
    found.shared = _shared(found)
    for item in found.places.items:
        _refuse_hidden(found, item)
    return found


def _refuse_hidden(found: _Resolution, item: Item) -> None:
    """Refuse `default.t` where WITH calls something else `t`: one part cannot tell them apart."""
    if item.is_hidden and "." not in found.identities.get(item.start, "."):
        start, stop = _span(found, item)
        what = f"{found.text[start:stop]} where WITH calls something else {item.parts[-1]}"
        error = NotSupported(what, "give the item of WITH another name")
        raise error.at(found.text, start, stop - start)


def _marked(query: str) -> tuple[Token, ...]:
    """Return the tokens of a query; keywords that are names where they stand are quoted names."""
    tokens, marked = tokenize(query), tokenize(quoted_names(query))
    if len(tokens) != len(marked):
        return tokens
    return tuple(
        Token(mark.kind, mark.text, own.start, own.end)
        for own, mark in zip(tokens, marked, strict=True)
    )


def _is_read(query: str, parts: Sequence[str]) -> bool:
    """Whether a query reads a relation of that name; one that cannot be read is taken to."""
    try:
        read = relations_of(name_changes(query)[0])
    except SqlError:
        return True
    name = joined(parts) if len(parts) > 1 else parts[0]
    ranged = (each.relation for each in name_changes(query)[1])
    return name.lower() in {each.lower() for each in (*read, *ranged)}


def _span(found: _Resolution, item: Item) -> tuple[int, int]:
    return found.tokens[item.start].start, found.tokens[item.stop - 1].end


# Relations


def _relation_edits(found: _Resolution) -> list[Edit]:
    edits = []
    for item in found.places.items:
        identity = found.identities.get(item.start)
        if identity is None or item.start < 0:
            continue
        if identity.startswith(f"{SYSTEM}."):
            edits += _without_catalog(found, item.start, len(item.parts))
            continue
        last = found.tokens[item.stop - 1]
        start, stop = _span(found, item)
        named = backquoted(identity) if "." in identity else found.text[last.start : last.end]
        if found.text[start:stop] != named:
            edits.append(Edit(start, stop, named))
        alias = _alias(found, item)
        if item.alias is None and item.room is not None and alias != identity:
            place = found.tokens[item.room - 1].end
            quoted = last.text if alias == last.value else backquoted(alias)
            edits.append(Edit(place, place, f" AS {quoted}"))
    return edits


def _without_catalog(found: _Resolution, start: int, size: int) -> list[Edit]:
    """Return what leaves the catalog out before `laminar_system.table`."""
    tokens = found.tokens
    return [Edit(tokens[start].start, tokens[start + 2].start, "")] if size == 3 else []


def _alias(found: _Resolution, item: Item) -> str:
    """Return what columns of an item are qualified by."""
    if item.start in found.given:
        return found.given[item.start].alias
    if item.alias is not None:
        return item.alias
    identity = found.identities.get(item.start)
    if identity is None or item.room is None:
        return item.parts[-1]
    if item.parts[-1].lower() in found.shared:
        return f"{schema_of(identity)}.{last_of(identity)}"
    return item.parts[-1]


def _exposed(item: Item) -> str:
    return (item.parts[-1] if item.alias is None else item.alias).lower()


def _shared(found: _Resolution) -> frozenset[str]:
    if all(_owner(found, each) is None for each in found.places.columns):
        return frozenset()
    meant: dict[str, set[str]] = {}
    for each in found.places.items:
        identity = found.identities.get(each.start, "").lower()
        own = identity if each.alias is None else f"as {_exposed(each)}"
        meant.setdefault(_exposed(each), set()).add(own)
    return frozenset(name for name, different in meant.items() if len(different) > 1)


# Columns


def _column_edits(found: _Resolution) -> list[Edit]:
    edits = []
    for column in found.places.columns:
        owner = _owner(found, column) or _short_owner(found, column)
        if owner is None:
            continue
        item, used = owner
        if found.identities.get(item.start, "").startswith(f"{SYSTEM}."):
            edits += _without_catalog(found, column.start, used)
            continue
        alias = _alias(found, item)
        first, last = found.tokens[column.start], found.tokens[column.start + 2 * (used - 1)]
        text = last.text if alias.lower() == last.value.lower() else backquoted(alias)
        if found.text[first.start : last.end] != text:
            edits.append(Edit(first.start, last.end, text))
    return edits


def _owner(found: _Resolution, column: Column) -> tuple[Item, int] | None:
    """Return the item whose schema and name a column begins with, and how many parts that takes."""
    sizes = [size for size in (3, 2) if size < column.size and size <= len(column.parts)]
    for block in column.block.outward():
        for size in sizes:
            for item in block.items:
                identity = found.identities.get(item.start)
                if identity is None or (item.alias is not None and item.start >= 0):
                    continue
                if found.names.refers(column.parts[:size], identity):
                    return item, size
    return None


def _short_owner(found: _Resolution, column: Column) -> tuple[Item, int] | None:
    """Return the one item that a column's first part names, if its alias is another."""
    for block in column.block.outward():
        named = [item for item in block.items if _exposed(item) == column.parts[0].lower()]
        if named:
            only = named[0] if len(named) == 1 else None
            is_other = only is not None and _alias(found, only).lower() != _exposed(only)
            return (only, 1) if only is not None and is_other else None
    return None


# Calls


def _call_edits(found: _Resolution, *, session: bool) -> list[Edit]:
    edits = []
    for call in found.places.calls:
        owner = tuple(part.lower() for part in call.parts[:-1])
        if owner in ((DEFAULT,), (CATALOG, DEFAULT)):
            last = found.tokens[call.start + 2 * len(owner)]
            edits.append(Edit(found.tokens[call.start].start, last.start, ""))
        elif session and not owner and call.parts[0].lower() in _OF_THE_SESSION:
            edits += _answered(found, call)
    for each in calls_of(found.tokens, (FUNCTION,)):
        edits += _named_changes(found, each.start + 2)
    return edits


def _answered(found: _Resolution, call: Call) -> list[Edit]:
    """Return what the session answers to a call without arguments; its column keeps its name."""
    tokens, name = found.tokens, call.parts[0].lower()
    if call.start + 2 >= len(tokens) or not tokens[call.start + 2].is_symbol(")"):
        return []
    answer = CATALOG if name == _OF_THE_SESSION[2] else found.names.current
    shown = name if name == _OF_THE_SESSION[2] else _OF_THE_SESSION[0]
    alias = f" AS `{shown}()`" if call.is_item else ""
    start, stop = tokens[call.start].start, tokens[call.start + 2].end
    return [Edit(start, stop, f"{string_literal(answer)}{alias}")]


def _named_changes(found: _Resolution, at: int) -> list[Edit]:
    """Return what names the relation of table_changes('s.t', ...)."""
    if at >= len(found.tokens) or found.tokens[at].kind is not Kind.STRING:
        return []
    token = found.tokens[at]
    try:
        identity = found.names.known(parts_of(token.value))
    except SqlError as error:
        raise error.at(found.text, token.start, token.end - token.start) from None
    if identity == token.value:
        return []
    return [Edit(token.start, token.end, string_literal(identity))]


# What is checked


def _require_same(found: _Resolution, made: Rewritten, own: Iterable[str]) -> None:
    """Raise if what is read is not what the names stand for: they were not all found."""
    if name_changes(made.text)[1]:
        return
    own = {each.lower() for each in own}
    wanted = {
        each.lower() if each.lower() in own else found.names.known(parts_of(each)).lower()
        for each in relations_of(found.text)
    }
    read = {each.lower() for each in relations_of(made.text)}
    if wanted != read:
        odd = ", ".join(sorted(wanted ^ read))
        hint = "write schema and name of each relation after FROM or JOIN, and give it an alias"
        raise NotSupported(f"names of several parts as they stand here: {odd}", hint)
