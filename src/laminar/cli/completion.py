"""What the word before the cursor may become: keywords, relations, columns, functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from laminar.cli.commands import COMMANDS
from laminar.errors import SqlSyntaxError
from laminar.model.quoting import backquoted
from laminar.sql.keywords import keywords
from laminar.sql.parser import STATEMENTS
from laminar.sql.system import SYSTEM
from laminar.sql.tokens import Kind, Token, scan

KEYWORDS = keywords(
    "ADD AFTER ALL ALLOW ALTER AND ANTI AS ASC BETWEEN BY CASCADE CASE CAST CHANGES CHECKPOINT"
    " CHECKPOINTS CLOSE CREATE CROSS DAG DATA DAY DELETE DEPENDENCIES DESC DESCRIBE DISTINCT DROP"
    " ELSE EMIT END EPOCH EXCEPT EXISTS EXPLAIN FALSE FILTER FINAL FIRST FOR FROM FULL GROUP"
    " HAVING HOUR IF IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN KEY LAST LATE LATENESS LEFT"
    " LIKE LIMIT MATCHED MATERIALIZED MERGE MINUTE NOT NULL NULLS OF ON OR ORDER OUTER OVER"
    " PARTITION PAUSE PERIODICALLY PRIMARY REFRESH REPLACE RESET RESTORE RESTRICT RESUME RIGHT"
    " SCHEMA SCHEMAS SECOND SELECT SEMI SET SHOW SINK SINKS SOURCE SOURCES TABLE TABLES THEN TO"
    " TRUE UNION UPDATE USING VALUES VIEW VIEWS WATERMARK WHEN WHERE WINDOW WITH"
)
TYPES = keywords(
    "ARRAY BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT MAP SMALLINT STRING STRUCT TIMESTAMP"
    " TIMESTAMP_NTZ TINYINT"
)

# What stands before the name of a relation.
_BEFORE_RELATION = keywords("FROM JOIN INTO UPDATE DESCRIBE FOR TABLE")
_BEFORE_OWN = keywords("VIEW SOURCE SINK EXISTS")
_NOT_ALIASES = KEYWORDS | keywords("NATURAL LATERAL ORDER SORT TABLESAMPLE PIVOT QUALIFY OFFSET")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


class Names(Protocol):
    """What exists, for the completer."""

    def relations(self) -> Mapping[str, Sequence[str]]:
        """Return relation -> its columns; system tables have two parts in their names."""
        ...

    def functions(self) -> Iterable[str]:
        """Return the names of all functions."""
        ...


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the cursor is: the tokens before it, the word it is in, the whole statement."""

    before: tuple[Token, ...]
    word: str
    statement: tuple[Token, ...]

    def back(self, steps: int) -> str:
        return self.before[-steps].upper if len(self.before) >= steps else ""


class SqlCompleter(Completer):
    """Completes statements and commands."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        """Yield what fits at the cursor, the likeliest first."""
        text = document.text_before_cursor
        if text.lstrip().startswith("\\"):
            yield from self._command(text.lstrip(), event)
            return
        place = _place(document)
        if place is None:
            return
        seen: set[str] = set()
        for kind, candidates in self._candidates(place):
            for each in candidates:
                if each.casefold().startswith(place.word.casefold()) and each not in seen:
                    seen.add(each)
                    shown = (
                        _cased(each, place.word) if kind in ("keyword", "type") else _quoted(each)
                    )
                    yield Completion(shown, -len(place.word), display=each, display_meta=kind)

    def _command(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        name, blank, argument = text[1:].partition(" ")
        if not blank:
            for known, command in COMMANDS.items():
                if known.startswith(name):
                    yield Completion(known, -len(name), display_meta=command.meaning)
        elif name == "i":
            yield from self._paths.get_completions(Document(argument), event)
        elif name == "d":
            for relation in self._names.relations():
                if relation.casefold().startswith(argument.casefold()):
                    yield Completion(relation, -len(argument), display_meta="relation")

    def _candidates(self, place: _Place) -> Iterator[tuple[str, Iterable[str]]]:
        relations = self._names.relations()
        if place.back(1) == ".":
            yield from self._members(place, relations)
        elif not place.before:
            yield "keyword", sorted(word for word in STATEMENTS if word.isalpha())
        elif place.back(1) in _BEFORE_RELATION:
            yield "relation", relations
            yield "keyword", KEYWORDS & {"SELECT", "IF", "MATERIALIZED", "SOURCE", "CHECKPOINT"}
        elif place.back(1) in _BEFORE_OWN:
            yield "relation", [name for name in relations if not name.startswith(f"{SYSTEM}.")]
            yield "keyword", ["IF", "NOT", "EXISTS"]
        else:
            yield "column", self._columns(place, relations)
            yield "alias", _aliases(place.statement, relations)
            if place.word:
                yield "function", sorted(self._names.functions())
            yield "relation", relations
            yield "keyword", sorted(KEYWORDS)
            yield "type", sorted(TYPES)

    def _members(
        self, place: _Place, relations: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield what may follow a dot: columns of a relation or alias, tables of a schema."""
        owner = place.before[-2].value if len(place.before) > 1 else ""
        meant = _aliases(place.statement, relations).get(owner.casefold(), owner)
        for name, columns in relations.items():
            if name.casefold() == meant.casefold():
                yield "column", columns
            elif name.casefold().startswith(f"{owner.casefold()}."):
                yield "relation", [name.partition(".")[2]]

    def _columns(self, place: _Place, relations: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the columns of what the statement names; of everything if it names nothing."""
        named = {
            token.value.casefold() for token in place.statement if token.kind is not Kind.STRING
        }
        parts = {name: name.casefold().split(".")[-1] for name in relations}
        chosen = [name for name in relations if parts[name] in named]
        found = [column for name in chosen or relations for column in relations[name]]
        return list(dict.fromkeys(found))


def _place(document: Document) -> _Place | None:
    """Find out where the cursor is; None inside a string or a comment."""
    before = _statement(document.text_before_cursor)
    if before is None:
        return None
    text = document.text_before_cursor
    word = ""
    if before and before[-1].kind in (Kind.WORD, Kind.NUMBER) and before[-1].end == len(text):
        word, before = before[-1].text, before[:-1]
    after = _statement_end(document.text_after_cursor)
    return _Place(before, word, (*before, *after))


def _statement(text: str) -> tuple[Token, ...] | None:
    """Return the tokens of the statement that a text ends in."""
    found: list[Token] = []
    try:
        for token in scan(text):
            found = [] if token.is_symbol(";") else [*found, token]
    except SqlSyntaxError:
        return None
    # A comment leaves no token; the cursor may be in one that ends with the line.
    line = text[text.rfind("\n") + 1 :]
    commented = "--" in line and not any(text.find("--", t.start, t.end) >= 0 for t in found)
    return None if commented else tuple(found)


def _statement_end(text: str) -> tuple[Token, ...]:
    found: list[Token] = []
    try:
        for token in scan(text):
            if token.is_symbol(";"):
                break
            found.append(token)
    except SqlSyntaxError:
        pass  # what was read so far serves
    return tuple(found)


def _aliases(tokens: Sequence[Token], relations: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return alias -> relation, as in FROM orders AS o or FROM orders o."""
    known = {name.casefold(): name for name in relations}
    found: dict[str, str] = {}
    for place, token in enumerate(tokens):
        name = known.get(token.value.casefold())
        if place >= 2 and tokens[place - 1].is_symbol("."):
            name = known.get(f"{tokens[place - 2].value}.{token.value}".casefold(), name)
        if name is None:
            continue
        rest = [each for each in tokens[place + 1 : place + 3] if not each.is_word("AS")]
        if rest and rest[0].kind in (Kind.WORD, Kind.QUOTED) and rest[0].upper not in _NOT_ALIASES:
            found[rest[0].value.casefold()] = name
    return found


def _cased(word: str, typed: str) -> str:
    return word.lower() if typed.islower() else word


def _quoted(name: str) -> str:
    parts = name.split(".")
    return ".".join(part if _PLAIN_NAME.fullmatch(part) else backquoted(part) for part in parts)
