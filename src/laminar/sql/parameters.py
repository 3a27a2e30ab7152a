"""Parameters of a query, `:name` and `?`, with arguments in their place.

An argument becomes a literal, so that nothing in it is ever read as SQL. Definitions keep their
parameters and are refused for them: what a view means must not depend on who ran the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from laminar.errors.arguments import (
    BadArgument,
    MissingArgument,
    ParameterInDefinition,
    UnusedArgument,
)
from laminar.sql.cursor import Cursor
from laminar.sql.keywords import keywords
from laminar.sql.literals import literal
from laminar.sql.tokens import Kind, Token, tokenize

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any]

_BEFORE_VALUE = keywords(
    "ALL AND ANY AS BETWEEN BY CASE DISTINCT DIV ELSE ESCAPE EXTEND FROM HAVING ILIKE IN INTERVAL"
    " LIKE LIMIT NOT OFFSET ON OR OUT QUALIFY REGEXP RLIKE SELECT SET THEN VALUES WHEN WHERE"
)
"""After one of these a colon begins a parameter; after a value it takes a part out of that."""

_DEFINING = keywords("CREATE ALTER DROP")


@dataclass(frozen=True, slots=True)
class Marker:
    """A parameter: as it is written, and where."""

    text: str
    start: int
    end: int


def markers_of(tokens: Sequence[Token]) -> Iterator[Marker]:
    """Yield the parameters among tokens, from left to right."""
    for place, token in enumerate(tokens):
        if token.is_symbol("?"):
            yield Marker("?", token.start, token.end)
        elif token.is_symbol(":") and place + 1 < len(tokens):
            name = tokens[place + 1]
            if name.kind is Kind.WORD and name.start == token.end and _begins(tokens, place):
                yield Marker(f":{name.text}", token.start, name.end)


def refuse_parameters(cursor: Cursor, start: int, stop: int) -> None:
    """Raise at a parameter between two tokens of a definition."""
    for marker in markers_of(cursor.tokens[start:stop]):
        raise ParameterInDefinition(marker.text).at(
            cursor.text, marker.start, marker.end - marker.start
        )


def with_arguments(script: str, args: Arguments | None) -> str:
    """Return a script with arguments in the place of its parameters.

    Raises:
        MissingArgument: a parameter has none.
        UnusedArgument: an argument has no parameter.
        BadArgument: SQL has no such value.
    """
    if args is None and "?" not in script and ":" not in script:
        return script
    binding = _Binding(script, {} if args is None else args)
    kept, at = [], 0
    for marker in binding.markers():
        kept += [script[at : marker.start], binding.value(marker)]
        at = marker.end
    binding.require_all_used()
    return "".join([*kept, script[at:]])


class _Binding:
    """Hands out arguments, and remembers which."""

    def __init__(self, script: str, args: Arguments) -> None:
        if isinstance(args, str | bytes) or not isinstance(args, Mapping | Sequence):
            raise BadArgument("args", "args is a dict for :name, or a list for ?")
        self.script = script
        self.named = isinstance(args, Mapping)
        keys = args if self.named else range(len(args))
        self.args = {str(key): args[key] for key in keys}  # type: ignore[index]
        self.asked: list[str] = []
        self.used: set[str] = set()

    def markers(self) -> Iterator[Marker]:
        """Yield the parameters that arguments are put in place of; not those of definitions."""
        for tokens in _statements(tokenize(self.script)):
            defines = tokens[0].is_word(*_DEFINING)
            for marker in markers_of(tokens):
                if defines:
                    self._key(marker)
                else:
                    yield marker

    def _key(self, marker: Marker) -> str:
        key = marker.text[1:] if self.named else str(len(self.asked))
        self.asked.append(marker.text)
        self.used.add(key)
        return key

    def value(self, marker: Marker) -> str:
        key = self._key(marker)
        if (marker.text == "?") is self.named or key not in self.args:
            shown = marker.text if marker.text != "?" else f"? number {len(self.asked)}"
            known = tuple(self.args) if self.named else ()
            raise self._at(MissingArgument(shown, known), marker)
        try:
            return literal(self.args[key])
        except ValueError as wrong:
            raise self._at(BadArgument(self._shown(key), str(wrong)), marker) from None

    def require_all_used(self) -> None:
        """Raise at the first argument that nothing asked for."""
        for key in self.args:
            if key not in self.used:
                raise UnusedArgument(self._shown(key), self.asked)

    def _shown(self, key: str) -> str:
        return key if self.named else f"number {int(key) + 1}"

    def _at(self, error: MissingArgument | BadArgument, marker: Marker) -> Any:
        return error.at(self.script, marker.start, marker.end - marker.start)


def _begins(tokens: Sequence[Token], place: int) -> bool:
    """Whether a colon begins a parameter, and does not follow a value."""
    if place == 0:
        return True
    before = tokens[place - 1]
    if before.kind is Kind.WORD:
        return before.upper in _BEFORE_VALUE and before.end < tokens[place].start
    return before.kind is Kind.SYMBOL and before.text not in (")", "]")


def _statements(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    start = 0
    for place, token in enumerate(tokens):
        if token.is_symbol(";"):
            if place > start:
                yield tokens[start:place]
            start = place + 1
    if start < len(tokens):
        yield tokens[start:]
