"""Text into tokens, split where Spark's own lexer splits it.

Not sqlglot's tokenizer, which swallows what follows EXPLAIN or SHOW up to the next semicolon,
inside a string too, tells no place for a string that never ends, and reads `''` and a comment
that ends in a backslash in other ways than Spark 4 does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from laminar.errors.sql import SqlSyntaxError


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end of the statement"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text with its place: `start` is its first character, `end` one past its last."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The word in capitals if it may be a keyword, the symbol itself, otherwise nothing."""
        if self.kind is Kind.WORD:
            return self.text.upper()
        return self.text if self.kind is Kind.SYMBOL else ""

    @property
    def value(self) -> str:
        """What a name or a string stands for, without its quotes."""
        if self.kind is Kind.QUOTED:
            return self.text[1:-1].replace("``", "`")
        return _unquoted(self.text) if self.kind is Kind.STRING else self.text

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords, in any case and not quoted."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Whether this is exactly that symbol."""
        return self.kind is Kind.SYMBOL and self.text == symbol


_SPACE = re.compile(r"\s+")
# A backslash at the end of the line carries the comment on to the next one, as in Spark.
_LINE_COMMENT = re.compile(r"--(?:\\\r?\n|[^\r\n])*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_STRING_BODY = {
    "'": re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL),
    '"': re.compile(r'"(?:[^"\\]|\\.|"")*"', re.DOTALL),
}
_RAW_BODY = {"'": re.compile(r"[rR]'[^']*'"), '"': re.compile(r'[rR]"[^"]*"')}
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?!\w)")
_WORD = re.compile(r"\w+")
# Angle brackets that close stay single, because types nest them: ARRAY<ARRAY<INT>>.
_SYMBOL = re.compile(r"<=>|==|!=|<>|<=|\|\||->|=>|::|\|>|.", re.DOTALL)


def tokenize(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text, without comments and white space."""
    return tuple(scan(text))


def without_comments(text: str) -> str:
    """Return the text with every comment turned into blanks, so that places stay what they are."""
    kept, at = [], 0
    for token in scan(text):
        kept += [_blank(text[at : token.start]), text[token.start : token.end]]
        at = token.end
    return "".join([*kept, _blank(text[at:])])


def scan(text: str, at: int = 0) -> Iterator[Token]:
    """Yield the tokens from a place on, each when it is asked for."""
    while True:
        at = _skip(text, at)
        if at >= len(text):
            return
        token = _token(text, at)
        yield token
        at = token.end


def _skip(text: str, at: int) -> int:
    while True:
        found = _SPACE.match(text, at) or _LINE_COMMENT.match(text, at)
        if found is not None:
            at = found.end()
        elif text.startswith("/*", at):
            at = _after_comment(text, at)
        else:
            return at


def _after_comment(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise SqlSyntaxError("a comment is never closed", hint="add the missing */").at(text, start, 2)


def _token(text: str, at: int) -> Token:
    char = text[at]
    if char in _STRING_BODY:
        return _closed(Kind.STRING, _STRING_BODY[char], text, at, char)
    if char in "rR" and text[at + 1 : at + 2] in _RAW_BODY and text[at + 1 : at + 2]:
        quote = text[at + 1]
        return _closed(Kind.STRING, _RAW_BODY[quote], text, at, quote)
    if char == "`":
        return _closed(Kind.QUOTED, _QUOTED, text, at, char)
    for kind, pattern in ((Kind.NUMBER, _NUMBER), (Kind.WORD, _WORD)):
        found = pattern.match(text, at)
        if found is not None:
            return Token(kind, found.group(), at, found.end())
    found = _SYMBOL.match(text, at)
    end = found.end() if found is not None else at + 1
    return Token(Kind.SYMBOL, text[at:end], at, end)


def _closed(kind: Kind, pattern: re.Pattern[str], text: str, at: int, quote: str) -> Token:
    found = pattern.match(text, at)
    if found is None:
        raise SqlSyntaxError(f"a {kind.value} is never closed", hint=f"add the missing {quote}").at(
            text, at
        )
    if kind is Kind.QUOTED and found.group() == "``":
        raise SqlSyntaxError("a quoted name is empty", hint="write a name").at(text, at, 2)
    return Token(kind, found.group(), at, found.end())


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _unquoted(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]
    return _ESCAPE.sub(_escaped, text[1:-1].replace(text[0] * 2, text[0]))


def _escaped(found: re.Match[str]) -> str:
    code = found.group(1)
    if code[0] in "uU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number <= 0x10FFFF else found.group()
    if len(code) == 3:
        return chr(int(code, 8))
    # % and _ keep their backslash: they are escapes of LIKE, not of strings.
    return found.group() if code in "%_" else _ESCAPED.get(code, code)


def _blank(text: str) -> str:
    return re.sub(r"[^\s]", " ", text)
