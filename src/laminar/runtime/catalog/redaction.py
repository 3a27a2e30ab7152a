"""What only its owner should know is never shown: as a value, in SQL text, or in a reason.

Secrets of options are told by name, by what the connector declares, and by what a value looks like
(`errors/secrets.py`). A connector that this process does not know may have secrets that nobody can
name here, so nothing of its options is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from laminar.connectors import sink_connectors, source_connectors
from laminar.errors import SqlError
from laminar.errors.secrets import HIDDEN, is_secret, shown
from laminar.runtime.catalog.definitions import Definition, TableDefinition
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.source_options import OWN
from laminar.sql.tokens import Kind, Token, tokenize

_OURS = OWN | {"connector"}

_CLASS = r"\w*(?:Error|Exception|Interrupt|Exit)\b"
_KIND = re.compile(
    rf"(?:{_CLASS}: )?\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\]"  # a condition of Spark's
    rf"|function \S+ raised {_CLASS}"
    rf"|(?:{_CLASS}: )?\[Errno \d+\] [A-Z][a-z]+(?: [a-z]+)*"  # what the system says
    rf"|{_CLASS}"
    r"|LMR-(?:8001|8012): .*"  # a connector that is not known or hangs: names and seconds
    r"|LMR-\d{4}"
    r"|PAUSE SINK was said|it is \d+ epochs behind, more than \w+ = \d+"
)


def shown_options(
    options: Mapping[str, str], connector: str | None = None
) -> list[tuple[str, str]]:
    """Return options as pairs, without what is secret in them."""
    hides_all = not _is_known(connector)
    return [
        (name, _shown_value(name, value, hides_all=hides_all))
        for name, value in sorted(options.items())
    ]


def shown_properties(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what a user says of a relation in TBLPROPERTIES, without what is secret in it."""
    return [(name, _shown_value(name, value)) for name, value in pairs]


def shown_definition(definition: Definition) -> str:
    """Return the statement that defined a relation as anybody may see it; empty if none did.

    A condition of a view such as `token = 'x'` is no option.
    """
    if isinstance(definition, TableDefinition):
        return shown_sql(definition.sql, definition.connector)
    return definition.sql


def shown_sql(sql: str, connector: str | None = None) -> str:
    """Return the text of a CREATE SOURCE or CREATE SINK without the values of secret options."""
    try:
        tokens = tokenize(sql)
    except SqlError:
        return HIDDEN  # a text that cannot be read may hold anything
    hides_all, kept, at = not _is_known(connector), list[str](), 0
    options = next((n for n, each in enumerate(tokens) if each.is_word("WITH")), len(tokens))
    for place, token in enumerate(tokens):
        if place < 2 or not tokens[place - 1].is_symbol("="):
            continue
        name = _name(tokens, place - 2)
        value = _shown_value(name, token.value, hides_all=hides_all and place > options)
        if value != token.value:
            kept += [sql[at : token.start], _literal(value)]
            at = token.end
    return "".join([*kept, sql[at:]])


def without_rows(reason: str | None, table: str = "materialized_views") -> str | None:
    """Return why something does not go on, without the values of rows that reasons may carry.

    What is left says what kind of failure it is: a code, Spark's condition, what the system says,
    or a Python exception's class.

    Args:
        reason: all of it.
        table: the system table that has all of it, for who may ask for rows.
    """
    if reason is None:
        return None
    found = _KIND.match(reason)
    kind = "it failed" if found is None else found[0]
    return f"{kind}; laminar_system.{table} says more"


def _is_known(connector: str | None) -> bool:
    known = (None, OBJECT, *source_connectors(), *sink_connectors())
    return (None if connector is None else connector.casefold()) in known


def _shown_value(name: str, value: str, *, hides_all: bool = False) -> str:
    if is_secret(name) or (hides_all and name.lower() not in _OURS):
        return HIDDEN
    return shown(value)


def _name(tokens: tuple[Token, ...], last: int) -> str:
    """Return the name that ends here, such as `sasl.password`."""
    first = last
    while first >= 2 and tokens[first - 1].is_symbol("."):
        first -= 2
    parts = (each.value for each in tokens[first : last + 1] if each.kind is not Kind.SYMBOL)
    return ".".join(parts)


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
