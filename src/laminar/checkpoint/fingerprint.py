"""Whether relations are defined alike in two catalogs, for three who ask.

Does it mean the same rows: `rows_fingerprint`. Do its traces hold the same: `stored_otherwise`. Can
rows that were kept go on under other definitions, its own and all it reads: `changed`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from laminar.model.trace import Trace
from laminar.model.trace_name import own_traces
from laminar.sql import relations_of
from laminar.sql.equality import normal_query

Definitions: TypeAlias = Sequence[Mapping[str, Any]]
"""The catalog of a manifest; each definition comes after what it reads."""

_ROWS = ("kind", "columns", "query", "reads", "emission", "view")
"""The parts of a definition that decide which rows it has. Cursors keep a text made of these: with
another part, all subscriptions that have a name would end."""

_STORED = (*_ROWS, "refresh_policy")
"""The parts that decide what its traces hold."""

_RULES = ("lengths", "chars", "generated", "checks")

_KEPT = (*_STORED, "name", "primary_key", "event_time", "delay_us", "is_source", *_RULES)
"""The parts that decide whether rows can be kept. Options of a connector do not: what was read
through them stays read."""


def rows_fingerprint(catalog: Definitions, names: Iterable[str]) -> str:
    """Return a text that changes when one of some definitions means other rows.

    One that was dropped and created again alike does: the rows of before are gone.
    """
    wanted = set(names)
    own = {each["name"]: _rows(each) for each in catalog if each["name"] in wanted}
    return _digest(own, 12)


def stored_otherwise(before: Definitions, after: Definitions) -> frozenset[str]:
    """Return what is in one catalog only, or whose traces hold something else in the other.

    Or the same, told apart by another key: what changed in a table is told by that.
    """
    then, now = _stored(before), _stored(after)
    return frozenset(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))


def fingerprints(catalog: Definitions) -> dict[str, str]:
    """Return name -> a text that changes with its definition, or with one that it reads."""
    found: dict[str, str] = {}
    for each in catalog:
        # Older versions did not write what is empty.
        own = {key: value or None for key, value in _parts(each, _KEPT).items()}
        own["query"] = normal_query(own["query"]) if own["query"] else None
        known = {name.casefold(): mark for name, mark in found.items()}
        own["above"] = [known.get(name.casefold()) for name in reads_of(each)]
        found[each["name"]] = _digest(own, 16)
    return found


def reads_of(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a definition reads, as it spells it; late rows read their view."""
    if definition.get("query"):
        return relations_of(definition["query"])
    if definition.get("view"):
        return (definition["view"],)
    return tuple(definition.get("reads", ()))


def changed(before: Definitions, after: Definitions) -> tuple[str, ...]:
    """Return what was defined otherwise before, or not at all; in the order of definition."""
    then = fingerprints(before)
    return tuple(name for name, mark in fingerprints(after).items() if then.get(name) != mark)


def without(traces: Mapping[str, Trace], names: Iterable[str]) -> dict[str, Trace]:
    """Return the traces without those of some relations."""
    gone = {each for name in names for each in own_traces(name, traces)}
    return {name: trace for name, trace in traces.items() if name not in gone}


def _parts(definition: Mapping[str, Any], parts: Iterable[str]) -> dict[str, Any]:
    found = {key: definition.get(key) for key in parts}
    if definition.get("calls"):
        # Another definition of a function is another one of what calls it.
        found["query"], found["calls"] = definition["expanded"], definition["calls"]
    return found


def _rows(definition: Mapping[str, Any]) -> dict[str, Any]:
    born = definition.get("born")  # older versions did not note it
    return _parts(definition, _ROWS) | ({"born": born} if born else {})


def _stored(catalog: Definitions) -> dict[str, str]:
    return {each["name"]: _text([_parts(each, _STORED), _key(each)]) for each in catalog}


def _key(definition: Mapping[str, Any]) -> list[str]:
    """Return what tells rows of a table apart; older versions did not note it."""
    return list(definition.get("primary_key") or ())


def _digest(value: Any, size: int) -> str:
    return hashlib.blake2b(_text(value).encode(), digest_size=size).hexdigest()


def _text(value: Any) -> str:
    # As JSON, in which a tuple is what it is read back as: a list.
    return json.dumps(value, sort_keys=True, default=str)
