"""What a script would do: its definitions are checked and compiled, and no data is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from laminar.cli.output import Printer
from laminar.runtime.introspection.explain import parts_of
from laminar.session import Database
from laminar.sql import (
    AlterSource,
    AlterView,
    CreateSink,
    CreateTable,
    CreateView,
    Drop,
    Query,
    ResetOption,
    SetOption,
    Statement,
)

_DEFINE = (
    CreateTable,
    CreateView,
    CreateSink,
    Drop,
    AlterSource,
    AlterView,
    SetOption,
    ResetOption,
    Query,
)
"""What is run, in a database that is empty and never steps: nothing is read, nothing published.

A query is only analysed; nobody asks for its rows.
"""


def define(db: Database, statements: Sequence[Statement]) -> int:
    """Run the definitions of a script; return how many statements were left out."""
    left_out = 0
    for statement in statements:
        if isinstance(statement, _DEFINE):
            db.run_statement(statement)
        else:
            left_out += 1
    return left_out


def explained(db: Database) -> dict[str, Any]:
    """Return the DAG and the plan of every view, as plain values."""
    catalog = db.engine.defined.catalog
    dag = catalog.dag
    name = {node.id: node.name for node in dag.nodes.values()}
    return {
        "waves": [[name[each] for each in wave] for wave in dag.waves()],
        "edges": [
            {
                "from": name[edge.source],
                "to": name[edge.target],
                "channel_type": edge.channel_type.value,
            }
            for edge in dag.edges.values()
        ],
        "shared_stages": {
            name[node]: shared.consumer_count for node, shared in dag.shared_stages().items()
        },
        "views": [
            {
                "name": view,
                "strategy": catalog.programs[view].strategy.value,
                "reads": list(catalog.programs[view].sources()),
                "columns": dict(
                    zip(catalog.shape(view).columns, catalog.shape(view).types, strict=True)
                ),
                "parts": [
                    asdict(part) for part in parts_of(catalog.programs[view], catalog.relations)
                ],
            }
            for view in catalog.registry.topo_order()
        ],
    }


def show_explained(found: dict[str, Any], printer: Printer) -> None:
    """Print the order in waves, then how nodes are connected and kept."""
    waves = " -> ".join(
        names[0] if len(names) == 1 else f"[{', '.join(names)}]" for names in found["waves"]
    )
    shared = [f"{name} ({count} consumers)" for name, count in found["shared_stages"].items()]
    edges = [f"{edge['from']}->{edge['to']}: {edge['channel_type']}" for edge in found["edges"]]
    printer.line(f"Execution order: {waves or 'nothing is defined'}")
    printer.line(f"Shared stages: {'; '.join(shared) or 'none'}")
    printer.line(f"Channel types: {', '.join(edges) or 'none'}")
    for view in found["views"]:
        printer.line(f"\n{view['name']}: {view['strategy']}")
        printer.line(f"  reads: {', '.join(view['reads']) or 'nothing'}")
        for part in view["parts"]:
            printer.line(f"  {part['name']}: {part['rule']}, {part['strategy']}, {part['storage']}")
            printer.line(f"    why: {part['why']}")
