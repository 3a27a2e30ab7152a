"""What a statement may not call, as it runs code that is no SQL: Java methods, and processes.

Whoever may ask a question would otherwise run any program as the user who has the database open.
Spark knows `reflect`, `java_method` and `try_reflect`, the scripts of `TRANSFORM ... USING`, and
`IDENTIFIER(...)` in the place of a function's name, under which each of them can hide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from laminar.sql.calls import calls_of
from laminar.sql.keywords import keywords
from laminar.sql.tokens import Kind, Token, tokenize

CODE = ("reflect", "java_method", "try_reflect", "transform", "identifier")
"""Each that can be trusted by name."""

_JAVA = keywords("REFLECT JAVA_METHOD TRY_REFLECT")
_ONLY_NAMED = ("INTO", "TABLE", "SOURCE", "VIEW", "EXISTS")
_MAY_HOLD = re.compile(r"reflect|java_method|identifier|\busing\b", re.IGNORECASE)


def foreign_code(text: str) -> list[tuple[str, int, int]]:
    """Return what runs code that is no SQL: one of `CODE`, its place and its length."""
    if _MAY_HOLD.search(text) is None:  # without reading the rows of a long INSERT
        return []
    tokens = tokenize(text)
    found = sorted(_found(tokens))
    return [(what, tokens[at].start, tokens[at].end - tokens[at].start) for at, what in found]


def _found(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    for call in calls_of(tokens, _JAVA):
        if not (call.start and tokens[call.start - 1].is_word(*_ONLY_NAMED)):
            yield call.start, call.name.lower()
    for call in calls_of(tokens, ("IDENTIFIER",)):
        if call.stop < len(tokens) and tokens[call.stop].is_symbol("("):
            yield call.start, "identifier"
    for at, token in enumerate(tokens[:-1]):
        if token.is_word("USING") and tokens[at + 1].kind is Kind.STRING:
            yield at, "transform"
