"""Calls of functions, found in the tokens of a query."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from laminar.sql.tokens import Kind, Token


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its name in capitals, and the places of its tokens among all of them.

    `arguments` are pairs of (first token, one past the last); `stop` is one past the bracket.
    """

    name: str
    start: int
    stop: int
    arguments: tuple[tuple[int, int], ...]


def calls_of(tokens: Sequence[Token], names: Collection[str]) -> Iterator[Call]:
    """Yield the calls of these functions, from left to right, nested ones after the outer one.

    A name in backquotes calls as well; a name after AS or WITH is an alias with columns.
    """
    for place, token in enumerate(tokens[:-1]):
        if token.kind not in (Kind.WORD, Kind.QUOTED) or token.value.upper() not in names:
            continue
        is_alias = place > 0 and tokens[place - 1].is_word("AS", "WITH", "RECURSIVE")
        if tokens[place + 1].is_symbol("(") and not is_alias:
            yield _call(tokens, place)


def _call(tokens: Sequence[Token], place: int) -> Call:
    depth, first, at = 0, place + 2, place + 1
    arguments: list[tuple[int, int]] = []
    while at < len(tokens):
        upper = tokens[at].upper
        depth += (upper in ("(", "[")) - (upper in (")", "]"))
        if depth == 0 or (depth == 1 and upper == ","):
            if at > first or depth == 1 or arguments:
                arguments.append((first, at))
            first = at + 1
        at += 1
        if depth == 0:
            break
    return Call(tokens[place].value.upper(), place, at, tuple(arguments))
