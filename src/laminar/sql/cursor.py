"""A place in the tokens of one statement, and the errors that point at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypedDict, TypeVar

from laminar.errors import nearest
from laminar.errors.sql import SqlError, SqlSyntaxError
from laminar.model.quoting import backquoted
from laminar.sql.keywords import keywords
from laminar.sql.location import Location
from laminar.sql.tokens import Kind, Token

_E = TypeVar("_E", bound=SqlError)

# Spark itself reserves almost nothing; a relation called like one of these is a clause that
# lost its name.
_NEVER_A_NAME = keywords(
    "AS BY CASCADE CREATE DROP EMIT EXISTS FROM GROUP HAVING IF INTO JOIN MATERIALIZED NOT ON ORDER"
    " REPLACE SELECT SET TABLE UNION VALUES VIEW WHERE WITH"
)


_CLOSED_BY = {"(": ")", "[": "]", "CASE": "END"}


class Origin(TypedDict):
    """What every statement is given: its text, and where that starts."""

    text: str
    location: Location


class Cursor:
    """Reads the tokens of one statement from left to right.

    Law: it never moves past the end; there `peek()` is a token of kind END, for ever.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.named: list[tuple[int, int]] = []
        """Where names of relations were taken: the first token, and one past the last."""
        last = tokens[-1].end if tokens else len(text)
        self._end = Token(Kind.END, "", last, last)

    def peek(self, ahead: int = 0) -> Token:
        """Return the token that comes next, or one further ahead."""
        place = self.at + ahead
        return self.tokens[place] if 0 <= place < len(self.tokens) else self._end

    def next(self) -> Token:
        """Take the token that comes next."""
        token = self.peek()
        self.at = min(self.at + 1, len(self.tokens))
        return token

    def done(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self.tokens)

    def looks_at(self, *words: str) -> bool:
        """Whether these keywords or symbols come next, in this order."""
        return all(self.peek(place).upper == word for place, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Take these keywords or symbols if they come next, all or none."""
        found = self.looks_at(*words)
        if found:
            self.at += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Take these keywords or symbols, in this order."""
        for word in words:
            if not self.accept(word):
                self.unexpected(word)

    def one_of(self, *words: str) -> str:
        """Take one of these keywords and return which."""
        token = self.peek()
        if token.upper not in words:
            self.unexpected(*words)
        return self.next().upper

    def finish(self) -> None:
        """Raise if something is left."""
        if not self.done():
            self.unexpected()

    def identifier(self, what: str) -> str:
        """Take one name, quoted or not."""
        token = self.peek()
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            self.unexpected(what)
        return self.next().value

    def name(self, what: str) -> str:
        """Take the name of a relation: parts joined by dots, as they are spelled."""
        if self.peek().upper in _NEVER_A_NAME:
            self.fail(
                f"{self.peek().text} stands where {what} should be",
                hint="write the name, in backquotes if it really is called that",
            )
        start = self.at
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier("the rest of the name"))
        self.named.append((start, self.at))
        return joined(parts)

    def integer(self, what: str) -> int:
        """Take a whole number."""
        token = self.peek()
        if token.kind is not Kind.NUMBER or not token.text.isascii() or not token.text.isdigit():
            self.unexpected(what)
        return int(self.next().text)

    def expression(self, what: str, *stops: str) -> str:
        """Take text up to a word outside of all brackets and all CASE ... END."""
        start = self.at
        inside: list[str] = []
        while not self.done() and (inside or self.peek().upper not in stops):
            # A field may be called like a keyword: the end of a window is `w.end`.
            is_field = self.peek(-1).is_symbol(".")
            word = self.next().upper
            if word in _CLOSED_BY and not is_field:
                inside.append(_CLOSED_BY[word])
            elif inside[-1:] == [word] and not is_field:
                inside.pop()
        if self.at == start:
            self.unexpected(what)
        return self.slice(start, self.at)

    def skip_brackets(self) -> None:
        """Take an opening bracket that comes next, and all up to the one that closes it."""
        depth = 0
        while not self.done():
            token = self.next()
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth == 0:
                return

    def slice(self, start: int, stop: int) -> str:
        """Return the text from one token up to, not including, another."""
        if stop <= start:
            return ""
        return self.text[self.tokens[start].start : self.tokens[stop - 1].end]

    def rest(self, what: str) -> str:
        """Take everything that is left, as text."""
        if self.done():
            self.unexpected(what)
        start, self.at = self.at, len(self.tokens)
        return self.slice(start, self.at)

    def origin(self, start: int = 0) -> Origin:
        """Return the text from a token on, and its place, as every statement keeps them."""
        token = self.tokens[start]
        place = Location.of(self.text, token.start)
        return Origin(text=self.slice(start, len(self.tokens)), location=place)

    def location(self) -> Location:
        """Return the place of the next token."""
        return Location.of(self.text, self.peek().start)

    def here(self, error: _E, token: Token | None = None, *, until: Token | None = None) -> _E:
        """Make an error point at a token, or from it to another."""
        first = token or self.peek()
        return error.at(self.text, first.start, (until or first).end - first.start)

    def fail(self, message: str, *, hint: str = "", token: Token | None = None) -> NoReturn:
        """Raise a syntax error at a token, the next one unless told."""
        raise self.here(SqlSyntaxError(message, hint=hint), token)

    def unexpected(self, *expected: str) -> NoReturn:
        """Raise: the next token is none of what was expected; the hint knows typing mistakes."""
        token = self.peek()
        found = f'unexpected "{token.text}"' if token.kind is not Kind.END else "unexpected end"
        wanted = f", expected {_listed(expected)}" if expected else ""
        meant = nearest(token.text, [word for word in expected if word.isupper()])
        hint = f"did you mean {meant}?" if meant else ""
        self.fail(f"{found}{wanted}", hint=hint)


def joined(parts: Sequence[str]) -> str:
    """Return a name of several parts as one; a part with a dot of its own stays in backquotes."""
    return ".".join(backquoted(each) if "." in each or "`" in each else each for each in parts)


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"
