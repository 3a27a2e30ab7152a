"""AS OF EPOCH n: which epoch of a relation a query reads.

One epoch, wherever it stands, is the epoch of the whole query. With several, each relation that is
read has to say its own: it is then read under a name that holds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laminar.errors.sql import NotSupported, SqlSyntaxError
from laminar.model.quoting import backquoted
from laminar.sql.cursor import Cursor, joined
from laminar.sql.keywords import keywords
from laminar.sql.tokens import Kind, Token

_READS = ("FROM", "JOIN", "TABLE")
CLAUSES = keywords(
    "FROM JOIN TABLE SELECT WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW"
    " QUALIFY ON USING UNION EXCEPT INTERSECT MINUS VALUES LATERAL PIVOT UNPIVOT"
)
_NOT_AN_ALIAS = CLAUSES | keywords(
    "LEFT RIGHT FULL INNER CROSS SEMI ANTI NATURAL OUTER TABLESAMPLE"
)


@dataclass(frozen=True, slots=True)
class Past:
    """A relation at an epoch, and the name under which the query reads it."""

    bound: str
    relation: str
    epoch: int


@dataclass(frozen=True, slots=True)
class _Clause:
    """One AS OF EPOCH n, by the places of its tokens; at `name` the relation's name starts."""

    name: int
    first: int
    last: int
    epoch: int


def refuse_time_travel(cursor: Cursor, start: int) -> None:
    """Raise if AS OF EPOCH stands anywhere from a token on: only queries of the user go back."""
    for clause in _clauses(cursor, start):
        raise cursor.here(
            NotSupported("AS OF EPOCH here", "only a SELECT of its own can read an older epoch"),
            cursor.tokens[clause.first],
            until=cursor.tokens[clause.last],
        )


def take_epochs(cursor: Cursor, start: int) -> tuple[str, int | None, tuple[Past, ...]]:
    """Return the query's text without AS OF EPOCH, the one epoch of all, or each one's own."""
    clauses = _clauses(cursor, start)
    base, text = cursor.tokens[start].start, cursor.slice(start, len(cursor.tokens))
    epochs = {clause.epoch for clause in clauses}
    pasts: dict[Past, None] = {}
    for clause in reversed(clauses):
        begin, end = cursor.tokens[clause.first].start - base, cursor.tokens[clause.last].end - base
        if len(epochs) == 1:
            # Blanked out, so that places stay the same.
            text = text[:begin] + _blank(text[begin:end]) + text[end:]
            continue
        past, alias = _past(cursor, clause)
        pasts[past] = None
        begin = cursor.tokens[clause.name].start - base
        text = f"{text[:begin]}{backquoted(past.bound)}{alias}{text[end:]}"
    return text.rstrip(), epochs.pop() if len(epochs) == 1 else None, tuple(reversed(pasts))


def _past(cursor: Cursor, clause: _Clause) -> tuple[Past, str]:
    parts = cursor.tokens[clause.name : clause.first]
    relation = joined([part.value for part in parts if not part.is_symbol(".")])
    after = cursor.tokens[clause.last + 1] if clause.last + 1 < len(cursor.tokens) else None
    past = Past(f"{relation} as of epoch {clause.epoch}", relation, clause.epoch)
    return past, "" if is_alias(after) else f" AS {backquoted(parts[-1].value)}"


def is_alias(after: Token | None) -> bool:
    """Whether what follows a relation gives it another name."""
    return after is not None and (
        after.kind is Kind.QUOTED or (after.kind is Kind.WORD and after.upper not in _NOT_AN_ALIAS)
    )


def _clauses(cursor: Cursor, start: int) -> list[_Clause]:
    found = []
    probe = Cursor(cursor.text, cursor.tokens)
    for place in range(start, len(cursor.tokens)):
        probe.at = place
        if not probe.accept("AS", "OF", "EPOCH"):
            continue
        epoch = probe.integer("the number of an epoch")
        after = place > start and cursor.tokens[place - 1].kind in (Kind.WORD, Kind.QUOTED)
        if not after or not reads_relations(cursor.tokens[start:place]):
            error = SqlSyntaxError("AS OF EPOCH stands after the name of what is read")
            first, last = cursor.tokens[place], cursor.tokens[probe.at - 1]
            raise cursor.here(error, first, until=last)
        name = place - 1
        while name - 2 >= start and cursor.tokens[name - 1].is_symbol("."):
            name -= 2
        found.append(_Clause(name, place, probe.at - 1, epoch))
    return found


def reads_relations(before: Sequence[Token]) -> bool:
    """Whether what comes behind some tokens stands in a list of relations, as after FROM."""
    depth = 0
    for token in reversed(before):
        depth += token.is_symbol(")") - token.is_symbol("(")
        if depth < 0:
            return False
        if depth == 0 and token.upper in CLAUSES:
            return token.upper in _READS
    return False


def _blank(text: str) -> str:
    return "".join("\n" if char == "\n" else " " for char in text)
