"""The DAG as relations: nodes, edges, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.dag import DagChannelType, DagNodeType
from laminar.dag.diamond import DiamondConsistency
from laminar.runtime.catalog.consistency_groups import groups_of
from laminar.runtime.introspection.live_dag import described
from laminar.runtime.introspection.system.node_position import epoch_of, wave_of
from laminar.runtime.introspection.system.table import Rows, SystemTable, columns
from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.timeline import Snapshot


def _topology(engine: Engine, snapshot: Snapshot) -> Rows:
    dag, programs = snapshot.catalog.dag, snapshot.catalog.programs
    name = {node.id: node.name for node in dag.nodes.values()}
    outlets: dict[str, list[str]] = {}
    for sink in engine.outputs.sinks.books.sinks():
        outlets.setdefault(sink.relation, []).append(sink.name)
    waves = wave_of(dag)
    for node in dag.nodes.values():
        program = programs.get(node.name)
        outputs = [name[each] for each in dag.downstream(node.id)]
        yield (
            node.id,
            node.name,
            described(snapshot.catalog, engine.defined.operators, node).node_type.value,
            [name[each] for each in dag.upstream(node.id)],
            outputs + outlets.get(node.name, []),
            node.id in dag.shared_stages(),
            len(outputs),
            waves[node.id],
            program.strategy.value if program else None,
        )
    for place, sink in enumerate(engine.outputs.sinks.books.sinks()):
        inner = dag.node_id_by_name(sink.relation)
        wave = waves[inner] + 1 if inner is not None else 0
        kind = DagNodeType.SINK.value
        yield len(dag.nodes) + place, sink.name, kind, [sink.relation], [], False, 0, wave, None


def _edges(engine: Engine, snapshot: Snapshot) -> Rows:
    dag = snapshot.catalog.dag
    name = {node.id: node.name for node in dag.nodes.values()}
    for edge in dag.edges.values():
        target = name[edge.target]
        yield (
            edge.id,
            name[edge.source],
            target,
            edge.channel_type.value,
            edge.source_port,
            edge.target_port,
            epoch_of(target, snapshot),
        )
    for place, sink in enumerate(engine.outputs.sinks.books.sinks()):
        channel = DagChannelType.SPSC.value
        edge_id = len(dag.edges) + place
        yield (
            edge_id,
            sink.relation,
            sink.name,
            channel,
            0,
            0,
            engine.outputs.sinks.books.cursor(sink.name),
        )


def _groups(engine: Engine, snapshot: Snapshot) -> Rows:
    progress = ViewProgress.from_state(snapshot.manifest.state)
    plan = engine.scheduler.plan(engine.env.clock())
    for group in groups_of(snapshot.catalog):
        if group.number is None:
            continue
        cursor = min(progress.cursor(each, snapshot.manifest.epoch) for each in group.members)
        held = [plan.held[each] for each in group.members if each in plan.held]
        reason = held[0].told("") if held else None
        for member in group.members:
            yield (
                group.number,
                member,
                member in group.convergence,
                max(progress.commits.get(each, 0) for each in group.members),
                group.policy.value,
                DiamondConsistency.ATOMIC.value,
                cursor,
                reason,
            )


TABLES = (
    SystemTable(
        "dag_topology",
        columns(
            "node_id int, name string, node_type string, inputs array<string>,"
            " outputs array<string>, is_shared boolean, consumers int, wave int, strategy string"
        ),
        _topology,
    ),
    SystemTable(
        "dag_edges",
        columns(
            "edge_id int, source string, target string, channel_type string, source_port int,"
            " target_port int, cursor bigint"
        ),
        _edges,
    ),
    SystemTable(
        "diamond_groups",
        columns(
            "group_id int, member string, is_convergence boolean, epoch bigint,"
            " schedule_policy string, consistency string, cursor bigint, reason string"
        ),
        _groups,
    ),
)
