"""A query in words that sqlglot reads as Spark does."""

from __future__ import annotations

from collections.abc import Sequence

from laminar.model.quoting import string_literal
from laminar.sql.reserved_words import quoted_names
from laminar.sql.tokens import Kind, Token, tokenize, without_comments

_INSTEAD = {"!>": "<=", "!<": ">="}


def readable(query: str) -> str:
    """Return the query in words that sqlglot reads as Spark does.

    It has no TABLE t, which it takes for a column with an alias, reserves words that Spark does
    not, has other rules for comments and strings, and none for a few operators.
    """
    query = quoted_names(_named(without_comments(query)))
    tokens = tokenize(query)
    kept, at = [], 0
    for place, token in enumerate(tokens):
        instead = _instead(tokens, place)
        if instead is not None and token.start >= at:
            words, last = instead
            kept += [query[at : token.start], words]
            at = tokens[last].end
    return "".join([*kept, query[at:]])


def _instead(tokens: Sequence[Token], place: int) -> tuple[str, int] | None:
    """Return other words for what stands at a place, and the last token that they are for."""
    token = tokens[place]
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    if token.kind is Kind.STRING:
        return _string(tokens, place)
    if after is None:
        return None
    if token.is_word("X") and after.kind is Kind.STRING and token.end < after.start:
        return f"X'{after.text[1:-1]}'", place + 1  # bytes, with a blank before them
    if token.is_symbol("!") and after.text in "<>" and token.end == after.start:
        return _INSTEAD[f"!{after.text}"], place + 1
    if token.is_word("SETMINUS") and after.is_word("SELECT", "ALL", "DISTINCT", "TABLE", "VALUES"):
        return "EXCEPT", place
    if token.is_word("WINDOW", "SESSION") and after.is_symbol("("):  # a call, not a clause
        return f"`{token.text}`", place
    is_name = after.kind in (Kind.WORD, Kind.QUOTED)
    if token.is_word("TABLE") and is_name and _starts_a_query(tokens, place):
        return "SELECT * FROM", place
    return None


def _string(tokens: Sequence[Token], place: int) -> tuple[str, int] | None:
    """Return a string, and those right after it, as one that both read alike."""
    before = tokens[place - 1] if place else None
    if before is not None and before.is_word("X") and before.end == tokens[place].start:
        return f"'{tokens[place].text[1:-1]}'", place
    last = place
    while last + 1 < len(tokens) and tokens[last + 1].kind is Kind.STRING:
        last += 1
    if last == place and not _is_special(tokens[place].text):
        return None
    return string_literal("".join(each.value for each in tokens[place : last + 1])), last


def _is_special(literal: str) -> bool:
    quote = literal[-1]
    return "\\" in literal or quote * 2 in literal[literal.index(quote) + 1 : -1]


def _named(query: str) -> str:
    """Write IDENTIFIER('a.b') as the name that it stands for."""
    if "identifier" not in query.lower():
        return query
    tokens, kept, at = tokenize(query), [], 0
    for place in range(len(tokens) - 3):
        word, opening, name, closing = tokens[place : place + 4]
        if (
            word.is_word("IDENTIFIER")
            and opening.is_symbol("(")
            and name.kind is Kind.STRING
            and closing.is_symbol(")")
            and _is_name(name.value)
        ):
            kept += [query[at : word.start], name.value]
            at = closing.end
    return "".join([*kept, query[at:]])


def _is_name(text: str) -> bool:
    """Whether a text is names with dots between them."""
    parts = tokenize(text)
    names = all(each.kind in (Kind.WORD, Kind.QUOTED) for each in parts[::2])
    return bool(parts) and names and all(each.is_symbol(".") for each in parts[1::2])


def _starts_a_query(tokens: Sequence[Token], place: int) -> bool:
    if place == 0:
        return True
    before = tokens[place - 1]
    return (
        before.is_symbol("(")
        or before.is_word("UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS", "AS")
        or before.is_symbol(")")
    )
