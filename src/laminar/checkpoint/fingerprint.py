"""What decides the rows of a relation: its definition, and those of all that it reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from laminar.model.trace import Trace
from laminar.model.trace_name import own_traces
from laminar.sql import relations_of
from laminar.sql.equality import normal_query

_DECIDES = (
    "kind",
    "name",
    "columns",
    "reads",
    "view",
    "refresh_policy",
    "emission",
    "primary_key",
    "event_time",
    "delay_us",
    "is_source",
)
"""The parts of a definition that matter, besides its query. Options of a connector do not: what was
read through them stays read."""


def fingerprints(catalog: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return name -> fingerprint; definitions come after what they read."""
    found: dict[str, str] = {}
    for each in catalog:
        own = {key: each[key] for key in _DECIDES if key in each}
        own["query"] = normal_query(each["query"]) if each.get("query") else None
        known = {name.casefold(): mark for name, mark in found.items()}
        own["above"] = [known.get(name.casefold()) for name in reads_of(each)]
        text = json.dumps(own, sort_keys=True, default=str)
        found[each["name"]] = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return found


def reads_of(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a definition reads."""
    if definition.get("query"):
        return relations_of(definition["query"])
    if definition.get("view"):
        return (definition["view"],)
    return tuple(definition.get("reads", ()))


def changed(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return what was defined otherwise before, or not at all; in the order of definition."""
    then = fingerprints(before)
    return tuple(name for name, mark in fingerprints(after).items() if then.get(name) != mark)


def without(traces: Mapping[str, Trace], names: Iterable[str]) -> dict[str, Trace]:
    """Return the traces without those of some relations."""
    gone = {each for name in names for each in own_traces(name, traces)}
    return {name: trace for name, trace in traces.items() if name not in gone}
