"""Names of several parts: `catalog.schema.name`.

The catalog is called `laminar`. What a user defines is in its schema `default`, whose names are
used in one part everywhere; `laminar_system` has the relations that describe the system. Here, and
nowhere else, a name of several parts becomes the one that the rest of the code knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laminar.errors.qualified_names import UnknownCatalog
from laminar.sql.keywords import keywords
from laminar.sql.system import SYSTEM
from laminar.sql.tokens import Kind, Token, tokenize

CATALOG = "laminar"
DEFAULT = "default"
SCHEMAS = (DEFAULT, SYSTEM)

_BEFORE_RELATION = keywords(
    "FROM JOIN INTO UPDATE TABLE VIEW SOURCE SINK FOR DESCRIBE DESC EXISTS USING FUNCTION TO"
    " DEPENDENCIES CREATE"
)
_CALLS = keywords("EXTRACT TRIM SUBSTRING SUBSTR OVERLAY")
_CLAUSES = keywords(
    "SELECT WHERE GROUP ORDER SORT CLUSTER DISTRIBUTE HAVING LIMIT WINDOW QUALIFY BY ON SET VALUES"
    " PARTITION INTERVAL CASE"
)


def local_name(name: str) -> str:
    """Return a name as the database knows it: without its catalog, and without `default`.

    Raises:
        UnknownCatalog: it is in another catalog.
    """
    if "." not in name:
        return name
    tokens = tokenize(name)
    parts = [token.value for token in tokens if not token.is_symbol(".")]
    if len(parts) == 3 and parts[0].lower() != CATALOG:
        raise UnknownCatalog(parts[0], CATALOG)
    kept = tokens[_left_out(parts) * 2 :]
    return kept[0].value if len(kept) == 1 else name[kept[0].start :]


def _left_out(parts: Sequence[str]) -> int:
    """Return how many parts in front of a name say nothing."""
    first = int(len(parts) > 2 and parts[0].lower() == CATALOG)
    is_default = len(parts) - first > 1 and parts[first].lower() == DEFAULT
    return first + is_default


def localised(text: str) -> str:
    """Return a script in which what says nothing in front of a name is blank: places stay.

    Law: `default.x` that is no relation and has no further part is left: it is a column's field.
    """
    lowered = text.lower()
    if DEFAULT not in lowered and CATALOG + "." not in lowered.replace(" ", ""):
        return text
    tokens = tokenize(text)
    for start, stop in _blanks(text, tokens):
        blank = "".join(char if char.isspace() else " " for char in text[start:stop])
        text = f"{text[:start]}{blank}{text[stop:]}"
    return text


def _blanks(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    found = [(places, parts, _is_relation(tokens, places[0])) for places, parts in _names(tokens)]
    relations = {_spelled(parts) for _, parts, is_relation in found if is_relation}
    for places, parts, is_relation in found:
        first = tokens[places[0]]
        if is_relation and len(parts) == 3 and parts[0].lower() != CATALOG:
            raise UnknownCatalog(parts[0], CATALOG).at(text, first.start, first.end - first.start)
        count, after = _left_out(parts), places[-1] + 1
        is_call = after < len(tokens) and tokens[after].is_symbol("(")
        owners = (_spelled(parts[:size]) for size in range(count + 1, len(parts)))
        if count and (is_relation or is_call or any(owner in relations for owner in owners)):
            yield first.start, tokens[places[count]].start


def _spelled(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)


def _names(tokens: Sequence[Token]) -> Iterator[tuple[list[int], list[str]]]:
    """Yield names of several parts: the places of their parts, and the parts."""
    at = 0
    while at < len(tokens):
        places = [at]
        while _is_part(tokens, places[-1]) and _goes_on(tokens, places[-1]):
            places.append(places[-1] + 2)
        if len(places) > 1:
            yield places, [tokens[place].value for place in places]
        at = places[-1] + 1


def _is_part(tokens: Sequence[Token], place: int) -> bool:
    return tokens[place].kind in (Kind.WORD, Kind.QUOTED)


def _goes_on(tokens: Sequence[Token], place: int) -> bool:
    is_dot = place + 2 < len(tokens) and tokens[place + 1].is_symbol(".")
    return is_dot and _is_part(tokens, place + 2)


def _is_relation(tokens: Sequence[Token], at: int) -> bool:
    """Whether a name stands where a relation is named; a comma goes on with what FROM began."""
    if at and tokens[at - 1].is_symbol(","):
        before = _clause(tokens, at - 1)
        return before is not None and tokens[before].is_word("FROM")
    if at == 0 or not tokens[at - 1].is_word(*_BEFORE_RELATION):
        return False
    return not (tokens[at - 1].is_word("FROM") and _is_within_call(tokens, at - 1))


def _clause(tokens: Sequence[Token], at: int) -> int | None:
    """Return where the clause begins that a place is in, in the same brackets."""
    depth = 0
    for place in range(at - 1, -1, -1):
        depth += tokens[place].is_symbol(")") - tokens[place].is_symbol("(")
        if depth < 0 or tokens[place].is_symbol(";"):
            return None
        if depth == 0 and tokens[place].is_word("FROM", *_CLAUSES):
            return place
    return None


def _is_within_call(tokens: Sequence[Token], at: int) -> bool:
    """Whether a FROM is one of EXTRACT(YEAR FROM x) and the like."""
    depth = 0
    for place in range(at - 1, 0, -1):
        depth += tokens[place].is_symbol(")") - tokens[place].is_symbol("(")
        if depth < 0:
            return tokens[place - 1].is_word(*_CALLS)
    return False
