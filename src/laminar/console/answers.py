"""What the console says, as plain values: one function per page of the API."""

from __future__ import annotations

from typing import Any

from laminar.console.folder import FolderState
from laminar.dag import DagChannelType, DagNodeType
from laminar.errors import UnknownRelation
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition, ViewDefinition
from laminar.runtime.catalog.redaction import shown_definition, shown_options, shown_sql
from laminar.runtime.introspection.status import RelationStatus, kind_of


def status(now: FolderState) -> dict[str, Any]:
    """Return what `laminar status --json` says."""
    return now.status.as_json()


def epochs(now: FolderState, limit: int) -> dict[str, Any]:
    """Return the newest epochs, oldest first."""
    shown = now.epochs[-limit:]
    return {"epochs": [each.as_json() for each in shown], "damaged": list(now.damaged)}


def dag(now: FolderState) -> dict[str, Any]:
    """Return nodes and edges, sinks included."""
    return {
        "epoch": now.manifest.epoch,
        "nodes": [*_relation_nodes(now), *_sink_nodes(now)],
        "edges": [*_relation_edges(now), *_sink_edges(now)],
    }


def definition(now: FolderState, name: str) -> dict[str, Any]:
    """Return how a relation or a sink is defined, and its neighbours."""
    graph = now.graph
    sinks = {each["name"]: each for each in graph.sinks}
    known = [*graph.definitions, *sinks]
    found = next((each for each in known if each.lower() == name.lower()), None)
    if found is None:
        raise UnknownRelation(name, known)
    if found in sinks:
        sink = sinks[found]
        return {
            "name": found,
            "kind": f"sink ({sink['connector']})",
            "sql": shown_sql(sink["sql"], sink["connector"]),
            "columns": _columns(now, sink["relation"]),
            "reads": [sink["relation"]],
            "readers": [],
            "strategy": None,
            "options": dict(shown_options(sink["options"], sink["connector"])),
        }
    defined = graph.definitions[found]
    options = {}
    sql = shown_definition(defined)
    if isinstance(defined, TableDefinition):
        options = dict(shown_options(defined.options, defined.connector))
    elif isinstance(defined, ViewDefinition):
        sql = sql or defined.query
        options = {
            each: getattr(defined, each)
            for each in (
                "refresh_policy",
                "schedule",
                "diamond_consistency",
                "diamond_schedule_policy",
            )
        }
    return {
        "name": found,
        "kind": kind_of(defined),
        "sql": sql,
        "columns": _columns(now, found),
        "reads": graph.reads(found),
        "readers": graph.readers(found),
        "strategy": _strategy(now, found),
        "options": options,
    }


def _columns(now: FolderState, name: str) -> list[dict[str, str]] | None:
    """Return the columns; None of a view whose manifest is from before they were written down."""
    defined = now.graph.definitions[name]
    if isinstance(defined, TableDefinition):
        pairs = [(column, kind) for column, kind, _ in defined.columns]
    elif isinstance(defined, OperatorDefinition):
        pairs = list(defined.columns)
    elif name in now.graph.outlines:
        pairs = [(column, kind) for column, kind in now.graph.outlines[name]["columns"]]
    else:
        return None
    return [{"name": column, "type": kind} for column, kind in pairs]


def _strategy(now: FolderState, name: str) -> str | None:
    outline = now.graph.outlines.get(name)
    if outline is not None:
        return str(outline["strategy"])
    ran = (view.strategy for each in now.epochs for view in each.views if view.name == name)
    return next(ran, None)


def _relation_nodes(now: FolderState) -> list[dict[str, Any]]:
    graph, dag = now.graph, now.graph.dag
    positions = {each.name: each for each in now.status.relations}
    shared = dag.shared_stages()
    return [
        {
            "id": node.id,
            "name": node.name,
            "type": node.node_type.value,
            **_position(positions[node.name], now),
            "wave": graph.waves[node.name],
            "shared": node.id in shared,
            "consumers": len(graph.readers(node.name)),
            "group": graph.groups.get(node.name),
            "strategy": _strategy(now, node.name),
        }
        for node in dag.nodes.values()
    ]


def _position(each: RelationStatus, now: FolderState) -> dict[str, Any]:
    rows, ms = _last(each.name, now)
    return {
        "kind": each.kind,
        "state": each.state,
        "state_reason": each.state_reason,
        "epoch": each.epoch,
        "rows": each.rows,
        "rows_out": rows,
        "ms": ms,
        "fused": each.name in now.manifest.state.fused,
    }


def _last(name: str, now: FolderState) -> tuple[int | None, float | None]:
    """Return the rows of a relation's delta in the newest epoch, and how long a view took."""
    newest = now.epochs[-1]
    for view in newest.views:
        if view.name == name:
            return view.rows, view.ms
    if not isinstance(now.graph.definitions[name], TableDefinition):
        return None, None
    trace = now.manifest.traces.get(name)
    delta = [each.rows for each in trace.segments if each.lo == newest.epoch] if trace else []
    return (sum(delta), None) if delta else (None, None)


def _sink_nodes(now: FolderState) -> list[dict[str, Any]]:
    graph = now.graph
    found = []
    for place, sink in enumerate(now.status.sinks):
        found.append(
            {
                "id": len(graph.dag.nodes) + place,
                "name": sink.name,
                "type": DagNodeType.SINK.value,
                "kind": f"sink ({sink.connector})",
                "state": sink.state,
                "state_reason": sink.state_reason,
                "epoch": sink.epoch,
                "rows": None,
                "rows_out": None,
                "ms": None,
                "fused": False,
                "wave": graph.waves[sink.relation] + 1,
                "shared": False,
                "consumers": 0,
                "group": None,
                "strategy": None,
            }
        )
    return found


def _relation_edges(now: FolderState) -> list[dict[str, Any]]:
    dag = now.graph.dag
    positions = {each.name: each.epoch for each in now.status.relations}
    return [
        {
            "id": edge.id,
            "source": dag.nodes[edge.source].name,
            "target": dag.nodes[edge.target].name,
            "channel_type": edge.channel_type.value,
            "cursor": positions[dag.nodes[edge.target].name],
        }
        for edge in dag.edges.values()
    ]


def _sink_edges(now: FolderState) -> list[dict[str, Any]]:
    return [
        {
            "id": len(now.graph.dag.edges) + place,
            "source": sink["relation"],
            "target": sink["name"],
            "channel_type": DagChannelType.SPSC.value,
            "cursor": now.cursors[sink["name"]],
        }
        for place, sink in enumerate(now.graph.sinks)
    ]
