"""Which views were stored by another plan than the one they have now.

A version may plan a query otherwise than the one before it: keys of another type, another hidden
part. What the older one stored cannot be read then, or means something else, so such views are
computed again, and with them all that read them.
"""

from __future__ import annotations

from collections.abc import Mapping

from laminar.delta.program import Applied, Program
from laminar.model.schema import Schema
from laminar.model.trace import Trace
from laminar.model.trace_name import own_traces
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.relations.trace_versions import versions_of


def outdated(catalog: Catalog, traces: Mapping[str, Trace]) -> tuple[str, ...]:
    """Return views to be computed again, in the order of definition."""
    wanted = {name: each.schema for name, each in versions_of(catalog.relations, {}).items()}
    planned = {name for name, program in catalog.programs.items() if _is_planned(program)}
    found: set[str] = set()
    for name in planned:
        stored = own_traces(name, traces)
        if not all(_is_alike(traces[each].schema, wanted.get(each)) for each in stored):
            found |= {name, *catalog.registry.all_dependents(name)}
    return tuple(name for name in catalog.registry.topo_order() if name in found & planned)


def _is_planned(program: Program) -> bool:
    """Whether rows follow from a query; those of a Python operator are its own."""
    return not any(isinstance(each, Applied) for each in program.relations)


def _is_alike(stored: str, wanted: str | None) -> bool:
    if wanted is None or stored == wanted:
        return wanted is not None
    return Schema.parse(stored) == Schema.parse(wanted)
