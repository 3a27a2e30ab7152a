"""What a view may not call: functions whose answer is not decided by the rows they are given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from laminar.sql.calls import Call, calls_of
from laminar.sql.keywords import keywords
from laminar.sql.location import Location
from laminar.sql.tokens import Kind, Token, tokenize

_CHANCE = keywords("RAND RANDN RANDOM RANDSTR UNIFORM UUID SHUFFLE")
_CLOCK = keywords(
    "NOW CURRENT_TIMESTAMP CURRENT_DATE CURRENT_TIME LOCALTIME LOCALTIMESTAMP CURDATE"
)
_CIRCUMSTANCES = keywords(
    "CURRENT_USER USER SESSION_USER CURRENT_CATALOG CURRENT_DATABASE CURRENT_SCHEMA VERSION"
    " CURRENT_TIMEZONE SPARK_PARTITION_ID MONOTONICALLY_INCREASING_ID"
    " INPUT_FILE_NAME INPUT_FILE_BLOCK_START INPUT_FILE_BLOCK_LENGTH"
)
_FOREIGN_CODE = keywords("REFLECT JAVA_METHOD TRY_REFLECT")
_CALLS = _CHANCE | _CLOCK | _CIRCUMSTANCES | _FOREIGN_CODE
# USER is missing on purpose: as a bare word it is the name of a column far more often.
_BARE = keywords("CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER LOCALTIME SESSION_USER")
# Spark 4.3 takes this word for its function even where a column has that name; it needs backquotes.
_PATH = "CURRENT_PATH"
_CLOCK_IF_EMPTY = ("UNIX_TIMESTAMP", "TO_UNIX_TIMESTAMP")
_CLOCK_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_CLOCK_WORDS = ("now", "today", "tomorrow", "yesterday")
_UNFINISHED = re.compile(rf"\s*(({'|'.join(_CLOCK_WORDS)})\b.*|T?\d\d?:\d.*)", re.IGNORECASE)
"""A string that Spark completes from the clock if it needs a time: 'now', or '09:00' of today."""


def forbidden_functions(query: str) -> list[tuple[str, Location]]:
    """Return what makes a query non-deterministic, with its place, from left to right."""
    tokens = tokenize(query)
    found = dict(_forbidden(tokens))
    return [(found[place], Location.of(query, tokens[place].start)) for place in sorted(found)]


def unfinished_times(query: str) -> list[tuple[str, int, int]]:
    """Return strings that would be read with the clock at hand, if times, with start and end."""
    return [
        (token.value, token.start, token.end)
        for token in tokenize(query)
        if token.kind is Kind.STRING and _UNFINISHED.fullmatch(token.value)
    ]


def _forbidden(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    for call in calls_of(tokens, (*_CALLS, *_CLOCK_IF_EMPTY)):
        if call.name in _CALLS or not call.arguments:
            yield call.start, call.name.lower()
    for call in calls_of(tokens, ("IDENTIFIER",)):
        if call.stop < len(tokens) and tokens[call.stop].is_symbol("("):
            yield call.start, "a function by identifier"  # any of these can hide there
    for call in calls_of(tokens, ("AES_ENCRYPT",)):
        if _draws_a_vector(tokens, call):
            yield call.start, call.name.lower()
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if _is_bare(token, before, after):
            yield place, token.text.lower()
        elif token.kind is Kind.STRING and token.value.strip().lower() in _CLOCK_WORDS:
            if _is_clock(before, tokens[place + 1 : place + 3]):
                yield place, f"the time '{token.value.strip().lower()}'"
        elif token.is_word("USING") and after is not None and after.kind is Kind.STRING:
            yield place, "transform using a script"
        elif token.is_word("TABLESAMPLE") and after is not None and after.is_symbol("("):
            yield place, "tablesample"


def _draws_a_vector(tokens: Sequence[Token], call: Call) -> bool:
    """Whether AES_ENCRYPT(text, key[, mode[, padding[, vector]]]) begins with random bytes.

    It does without a vector, or with an empty one, unless the mode, ECB, has none.
    """

    def literal(place: int) -> str | None:
        first, stop = call.arguments[place]
        alone = stop - first == 1 and tokens[first].kind is Kind.STRING
        return tokens[first].value.upper() if alone else None

    if len(call.arguments) > 2 and literal(2) == "ECB":
        return False
    return len(call.arguments) < 5 or literal(4) == ""


def _is_bare(token: Token, before: Token | None, after: Token | None) -> bool:
    """Whether a word is a function that is called without brackets."""
    if token.is_word(_PATH):
        return not _is_relation_or_call(before, after)
    return token.is_word(*_BARE) and not _is_name(before, after)


def _is_name(before: Token | None, after: Token | None) -> bool:
    """Whether a bare word is a part of a dotted name, or an alias."""
    dotted = before is not None and before.is_symbol(".")
    owner = after is not None and after.is_symbol(".")
    return dotted or owner or (before is not None and before.is_word("AS"))


def _is_relation_or_call(before: Token | None, after: Token | None) -> bool:
    """Whether a bare word is no value: a name as above, one of a relation, or called."""
    called = after is not None and after.is_symbol("(")
    related = before is not None and before.is_word("FROM", "JOIN", "WITH")
    return called or related or _is_name(before, after)


def _is_clock(before: Token | None, after: Sequence[Token]) -> bool:
    """Whether a string becomes a time: DATE 'now', CAST('now' AS DATE), 'now'::DATE."""
    literal = before is not None and before.is_word(*_CLOCK_TYPES)
    cast = len(after) == 2 and after[0].upper in ("AS", "::") and after[1].is_word(*_CLOCK_TYPES)
    return literal or cast
