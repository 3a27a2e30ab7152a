"""What a view does in an epoch, in words and statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laminar.dag import DagChannelType, StreamingDag
from laminar.delta.affected_groups import regroup
from laminar.delta.change import Change, Version, consolidate, table
from laminar.delta.cost import is_cheap
from laminar.delta.fixpoint import recurse, recurse_anew
from laminar.delta.full import recompute
from laminar.delta.linear import block_of
from laminar.delta.partials import accumulate, finish, needs_reset, reset
from laminar.delta.program import (
    Aged,
    Applied,
    Emitted,
    Late,
    Limited,
    Maintained,
    Mapped,
    Merged,
    Periodic,
    Program,
    Recomputed,
    Recursed,
    Regrouped,
    Sessioned,
)
from laminar.delta.render import Everything, change
from laminar.delta.sessions import resession
from laminar.delta.topk import retop
from laminar.model.trace_name import partial_trace
from laminar.plan.nodes import Aggregate, KeyedJoin, Node, Window, children
from laminar.runtime.catalog.storage_plan import StoragePlan
from laminar.runtime.relations.bindings import with_names


def explain_view(program: Program, relations: StoragePlan) -> list[str]:
    """Describe a view: its strategy, then each part with its rule, its reason, its statements."""
    lines = [
        f"view: {program.view}",
        f"strategy: {program.strategy.value}",
        f"reads: {', '.join(program.sources()) or 'nothing'}",
    ]
    for relation in program.relations:
        lines += ["", *_explain_relation(relation, relations)]
    return lines


@dataclass(frozen=True, slots=True)
class Part:
    """One relation of a view: its rule, how it follows its inputs and why, and what it stores."""

    name: str
    rule: str
    strategy: str
    why: str
    storage: str


def parts_of(program: Program, relations: StoragePlan) -> list[Part]:
    """Return the parts of a view, in the order in which an epoch runs them."""
    return [
        Part(each.shape.name, rule, each.strategy.value, why, storage=storage_of(each, relations))
        for each in program.relations
        for rule, why in [_rule(each)]
    ]


def _explain_relation(relation: Maintained, relations: StoragePlan) -> list[str]:
    name = relation.shape.name
    rule, why = _rule(relation)
    lines = [
        f"{name}: {rule}",
        f"  strategy: {relation.strategy.value}",
        f"  why: {why}",
        f"  storage: {storage_of(relation, relations)}",
        f"  columns: {relation.shape.ddl}",
    ]
    for title, sql in statements(relation, relations):
        lines.append(f"  {title}:")
        lines += [f"    {line}" for line in sql.split("\n")]
    return lines


def reason_of(relation: Maintained) -> str:
    """Say why a relation is kept the way it is."""
    return _rule(relation)[1]


def _rule(relation: Maintained) -> tuple[str, str]:
    match relation:
        case Mapped(fusible=True):
            return "linear", "every row of the delta maps to output rows of its own"
        case Mapped(node=node) if block_of(node) is not None:
            return "linear", "every row maps to rows of its own; stored, for it may fail"
        case Mapped():
            return "join", "each input's delta meets the other inputs' stored rows"
        case Merged(accumulators=accumulators):
            undo = "retractions are added in"
            if not accumulators.invertible:
                undo = "a retraction makes its group be read again"
            return "aggregate", f"groups are kept as mergeable accumulators; {undo}"
        case Regrouped(node=Aggregate()):
            return "aggregate", "a function without mergeable accumulators: touched groups only"
        case Regrouped(node=Window()):
            return "window", "touched partitions are computed anew"
        case Regrouped(node=KeyedJoin()):
            return "join", "the condition compares more than keys: touched keys only"
        case Limited():
            return "top-k", "insertions meet the stored rows; a retraction reads the input again"
        case Sessioned(accumulators=accumulators):
            if accumulators is None:
                return "sessions", "sessions that a change touches are computed from their rows"
            return "sessions", "accumulators of sessions that a change touches are merged"
        case Recursed(node=node):
            limit = "any number of" if node.most is None else f"at most {node.most}"
            why = f"what changes recurses by itself, with signs; {limit} levels"
            return "recursion", why
        case Emitted():
            return "emission", "a group is shown when its window is over; a change to it corrects"
        case Periodic(every_us=every):
            return "emission", f"changes are shown every {every / 1_000_000:g} seconds"
        case Aged():
            return "aging", "rows come and go as the clock reaches their limits"
        case Late():
            return "late rows", "rows of the delta whose windows are all final"
        case Applied(operator=operator):
            if hasattr(operator, "process"):
                return "operator", "an object of the user's turns deltas into deltas"
            return "function", "declared linear: insertions and retractions go through it apart"
        case Recomputed(reason=reason, detail=detail):
            return "query", f"{reason.value}: {detail}"
    raise TypeError(type(relation).__name__)


def storage_of(relation: Maintained, relations: StoragePlan) -> str:
    """Say what of a relation is on disk."""
    name = relation.shape.name
    if name in relations.fused and isinstance(relation, Mapped):
        if is_cheap(relation.node):
            return "fused into what reads it"
        return "fused; its delta is computed once and shared by what reads it"
    if isinstance(relation, Merged) and name not in relations.finished:
        return "accumulators"
    return "accumulators and results" if isinstance(relation, Merged) else "stored"


def shared_how(program: Program, relations: StoragePlan) -> str:
    """Say whether a view that several read is computed once for them."""
    output = program.output
    if output.shape.name in relations.fused and isinstance(output, Mapped):
        if is_cheap(output.node):
            return "computed by each of its readers, which is cheaper than keeping it"
        return "its delta is computed once, for all of its readers"
    return "stored once, for all of its readers"


def statements(relation: Maintained, relations: StoragePlan) -> list[tuple[str, str]]:
    """Return the statements that an epoch may run for a relation."""
    match relation:
        case Mapped():
            found = _changed(with_names(relation))
            assert found.delta is not None
            rows = found.delta
            if not relation.fusible:
                rows = consolidate(rows, relation.shape.row)
            return [("delta", rows)]
        case Merged():
            return _merged_statements(relation, _changed(relation.node.input), relations)
        case Regrouped():
            given = [_changed(each) for each in children(relation.node)]
            return [("delta", regroup(relation, given, existed=True))]
        case Limited():
            given_one = _changed(relation.node.input)
            return [("delta", retop(relation, given_one, existed=True))]
        case Sessioned():
            found = _changed(relation.node.input)
            return [("delta", resession(relation, found, existed=True))]
        case Recursed():
            return _recursed_statements(relation)
        case Applied() | Emitted() | Periodic() | Aged() | Late():
            return []  # what they run depends on the time
        case Recomputed():
            return [("delta", recompute(relation, existed=True))]
    raise TypeError(type(relation).__name__)


def _recursed_statements(relation: Recursed) -> list[tuple[str, str]]:
    found = recurse(relation, Everything(), existed=True, first=True)
    assert found is not None
    assert found.delta is not None
    anew = recurse_anew(relation, Everything(), first=True)
    return [("delta", found.delta), ("delta, if rows that cancel out fail", anew)]


def _changed(node: Node) -> Change:
    """Render a plan whose inputs all change; a constant does in a view's first epoch only."""
    found = change(node, Everything())
    return found if found.delta is not None else change(node, Everything(), first=True)


def _merged_statements(
    relation: Merged, given: Change, relations: StoragePlan
) -> list[tuple[str, str]]:
    partial = partial_trace(relation.shape.name)
    before, delta = table(partial, Version.BEFORE), table(partial, Version.DELTA)
    found = [("accumulate", accumulate(relation, given))]
    if needs_reset(relation, given):
        found.append(("accumulate, with retractions", reset(relation, given, before)))
    if relation.shape.name in relations.finished:
        found.append(("delta", finish(relation, before, delta, positive=False, first=False)))
    return found


def explain_dag(
    dag: StreamingDag,
    programs: Mapping[str, Program],
    groups: Sequence[str],
    sinks: Sequence[tuple[str, str]],
    relations: StoragePlan | None = None,
) -> list[str]:
    """Describe the whole topology: order, shared stages, channels, groups, strategies.

    With a storage plan it says what becomes of each shared view.
    """
    name = {node.id: node.name for node in dag.nodes.values()}
    waves = " -> ".join(_wave([name[node] for node in wave]) for wave in dag.waves())
    shared = [
        f"{name[node]} ({each.consumer_count} consumers)"
        for node, each in dag.shared_stages().items()
    ]
    lines = [f"Execution order: {waves or 'nothing is defined'}"]
    lines.append(f"Shared stages: {', '.join(shared) if shared else 'none'}")
    if relations is not None:
        lines += [
            f"Stage {name[node]}: {shared_how(programs[name[node]], relations)}"
            for node in dag.shared_stages()
            if name[node] in programs
        ]
    lines.append(f"Channel types: {', '.join(_channels(dag)) or 'none'}")
    lines.append(f"Consistency groups: {'; '.join(groups) if groups else 'none'}")
    if sinks:
        lines.append(f"Sinks: {', '.join(f'{each} <- {of}' for each, of in sinks)}")
    lines += [f"Edge {each}" for each in _edges(dag)]
    lines += [f"Strategy of {view}: {each.strategy.value}" for view, each in programs.items()]
    return lines


def _wave(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _channels(dag: StreamingDag) -> list[str]:
    """Name the channels of each node: one by one, or all together if it is one multicast."""
    found = []
    for node in dag.nodes.values():
        edges = [dag.edges[each] for each in node.outputs]
        if edges and all(edge.channel_type is DagChannelType.SPMC for edge in edges):
            found.append(f"{node.name}->*: SPMC (multicast)")
        else:
            found += [
                f"{node.name}->{dag.nodes[edge.target].name}: {edge.channel_type.value}"
                for edge in edges
            ]
    return found


def _edges(dag: StreamingDag) -> list[str]:
    return [
        f"{dag.nodes[edge.source].name}->{dag.nodes[edge.target].name}: {edge.channel_type.value}"
        for edge in dag.edges.values()
    ]
