"""Diamonds, and the groups of views that must commit together because of them.

A diamond is a node that combines two versions of one ancestor as soon as its inputs are not at
the same epoch. The laws, for a node D with the inputs 1..k, where branch j is input j with all
its ancestors:

- n is an *intermediate* iff it lies in a branch of D, and some other branch j does not contain n
  although it contains an ancestor of n. Then n and branch j can show D different versions of it.
- There is a diamond at D iff D has an intermediate.
- n is a *shared source* iff it lies in two branches at least, is no intermediate, and has an edge
  to one: it is where the paths part. (An edge to D implies that: the other path from n to D
  starts with an intermediate.)
- Diamonds with a common intermediate are one diamond, with all their convergence points.

Members are the nodes other than sources and sinks. The consistency groups are the finest
partition of the members in which

- the intermediates and convergence points of a diamond are together;
- so are a diamond and those of its shared sources that belong to another diamond;
- the groups can be put in an order in which everything comes after what it reads.

The last law makes groups convex: a view between two members of a group belongs to it, otherwise
it could run neither before nor after the group.

Nodes may opt out. A diamond whose convergence point opted out ties nobody. An intermediate that
opted out leaves, and with it those members of the diamond that depend on it: they have to wait for
it in any case, and whoever was tied to them would wait too. The others stay together.

Some nodes may have to stay together whatever they want.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from laminar.dag.graph import Graph
from laminar.dag.node import DagNodeType
from laminar.dag.scc import strongly_connected
from laminar.model.ids import NodeId


class DiamondConsistency(StrEnum):
    """Whether the views of a diamond commit an epoch together."""

    NONE = "none"
    ATOMIC = "atomic"


class DiamondSchedulePolicy(StrEnum):
    """When a group whose members have schedules of their own is due.

    The views in which a diamond's paths meet own the policy; of several the strictest counts.
    """

    FASTEST = "fastest"
    """As soon as one member is due."""

    SLOWEST = "slowest"
    """Not before all members are due."""

    def stricter(self, other: DiamondSchedulePolicy) -> DiamondSchedulePolicy:
        """Return the policy that waits longer."""
        return max(self, other, key=(DiamondSchedulePolicy.FASTEST, self.SLOWEST).index)


def is_group_due(policy: DiamondSchedulePolicy, members_due: Iterable[bool]) -> bool:
    """Return whether a group steps, given which of its members are due.

    For a group of one both policies say what its own schedule says.
    """
    due = tuple(members_due)
    return any(due) if policy is DiamondSchedulePolicy.FASTEST else all(due)


_OUTSIDE = frozenset({DagNodeType.SOURCE, DagNodeType.SINK})


@dataclass(frozen=True, slots=True)
class Diamond:
    """Paths that part at the shared sources and meet again at the convergence points.

    All three are in execution order. With several convergence points, one of them may be an
    intermediate on the way to another.
    """

    convergence_points: tuple[NodeId, ...]
    shared_sources: tuple[NodeId, ...]
    intermediates: tuple[NodeId, ...]

    @property
    def convergence(self) -> NodeId:
        """The first node in which the paths meet."""
        return self.convergence_points[0]


@dataclass(slots=True)
class ConsistencyGroup:
    """Nodes that commit an epoch all together or not at all, in execution order.

    The epoch counts the commits of the group; nothing else about a group ever changes.
    """

    members: tuple[NodeId, ...]
    convergence_points: tuple[NodeId, ...]
    epoch: int = 0

    def is_singleton(self) -> bool:
        """Return whether there is nobody to wait for."""
        return len(self.members) == 1

    def advance_epoch(self) -> int:
        """Count a commit; return the new epoch."""
        self.epoch += 1
        return self.epoch


def detect_diamonds(dag: Graph) -> list[Diamond]:
    """Return the diamonds of a DAG, by their first convergence point in execution order."""
    order = dag.execution_order()
    return [
        Diamond(
            convergence_points=_nodes(order, shape.convergence),
            shared_sources=_nodes(order, shape.shared),
            intermediates=_nodes(order, shape.intermediates),
        )
        for shape in _shapes(dag)
    ]


def compute_consistency_groups(
    dag: Graph,
    opted_out: Collection[NodeId] = (),
    together: Iterable[Collection[NodeId]] = (),
) -> list[ConsistencyGroup]:
    """Return the groups of a DAG, each after those it reads from.

    The laws ask for the finest partition without cycles between its parts in which some sets of
    nodes are together. Those are the strongly connected components of the dependencies plus a
    ring through each such set.

    Args:
        dag: the topology.
        opted_out: nodes that do not want to be tied to others.
        together: sets of members that belong to one group in any case.
    """
    order = dag.execution_order()
    out = _union(1 << at for at, node in enumerate(order) if node in set(opted_out))
    shapes = _shapes(dag, out)
    convergence = _union(shape.convergence for shape in shapes)
    rings = [*_rings(shapes, out), *([order.index(each) for each in some] for some in together)]
    groups = []
    for component in strongly_connected(_dependencies_and(dag, rings)):
        members = sorted(component)
        groups.append(
            ConsistencyGroup(
                members=tuple(order[at] for at in members),
                convergence_points=tuple(order[at] for at in members if convergence >> at & 1),
            )
        )
    return groups


# From here on a node is its position in the execution order, and a set of nodes the int with
# these bits set: union, intersection and difference take a few machine words each.


@dataclass(frozen=True, slots=True)
class _Shape:
    """A diamond as sets of nodes; a set is a number with a bit for each."""

    convergence: int
    shared: int
    intermediates: int

    def members(self) -> int:
        return self.intermediates | self.convergence

    def merge(self, other: _Shape) -> _Shape:
        intermediates = self.intermediates | other.intermediates
        return _Shape(
            convergence=self.convergence | other.convergence,
            shared=(self.shared | other.shared) & ~intermediates,
            intermediates=intermediates,
        )


def _shapes(dag: Graph, out: int = 0) -> list[_Shape]:
    """Find the diamond of every fan-in node, and merge those that overlap.

    Args:
        dag: the topology.
        out: nodes that opted out.
    """
    inputs = _inputs(dag)
    branch = _branches(inputs)
    related = _related(inputs)
    direct = [_union(1 << each for each in inputs[at]) for at in range(len(inputs))]
    merged: list[_Shape] = []
    for at in _members(dag):
        if len(inputs[at]) > 1:
            shape = _shape(at, inputs[at], branch, related, direct)
            if out:
                shape = _without(shape, out, branch)
            merged = _add(merged, shape) if shape.intermediates else merged
    return sorted(merged, key=lambda shape: _lowest(shape.convergence or shape.intermediates))


def _shape(
    at: int, inputs: tuple[int, ...], branch: list[int], related: list[int], direct: list[int]
) -> _Shape:
    seen = twice = intermediates = 0
    for each in inputs:
        twice |= seen & branch[each]
        seen |= branch[each]
    for each in inputs:
        intermediates |= seen & ~branch[each] & related[each]
    parting = _union(direct[each] for each in _bits(intermediates))
    return _Shape(1 << at, twice & ~intermediates & parting, intermediates)


def _without(shape: _Shape, out: int, branch: list[int]) -> _Shape:
    """Return what is left of the diamond of one node when some opted out."""
    if shape.convergence & out:
        return _Shape(0, 0, 0)
    gone = _union(1 << at for at in _bits(shape.members()) if branch[at] & out & shape.members())
    return _Shape(shape.convergence & ~gone, shape.shared, shape.intermediates & ~gone)


def _add(merged: list[_Shape], shape: _Shape) -> list[_Shape]:
    """Add a diamond to others that do not overlap; afterwards none do."""
    apart = []
    for other in merged:
        if other.intermediates & shape.intermediates:
            shape = shape.merge(other)
        else:
            apart.append(other)
    return [*apart, shape]


def _branches(inputs: Sequence[tuple[int, ...]]) -> list[int]:
    """Return for each node itself and its ancestors."""
    branch: list[int] = []
    for at, each in enumerate(inputs):
        branch.append(1 << at | _union(branch[source] for source in each))
    return branch


def _related(inputs: Sequence[tuple[int, ...]]) -> list[int]:
    """Return for each node all those that have an ancestor in its branch.

    An ancestor has its own ancestors in the branch too, down to a root. So it is enough to look
    at what descends from the roots of the branch.
    """
    below = [1 << at for at in range(len(inputs))]
    for at in reversed(range(len(inputs))):
        for source in inputs[at]:
            below[source] |= below[at]
    related: list[int] = []
    for at, each in enumerate(inputs):
        related.append(_union(related[source] for source in each) if each else below[at])
    return related


def _rings(shapes: list[_Shape], out: int) -> Iterator[list[int]]:
    in_diamonds = _union(shape.members() for shape in shapes)
    for shape in shapes:
        yield list(_bits(shape.members() | shape.shared & in_diamonds & ~out))


def _dependencies_and(dag: Graph, rings: Iterable[list[int]]) -> dict[int, list[int]]:
    inputs = _inputs(dag)
    members = _members(dag)
    edges = {at: [each for each in inputs[at] if each in members] for at in members}
    for ring in rings:
        for at, successor in zip(ring, [*ring[1:], ring[0]], strict=True):
            edges[at].append(successor)
    return edges


def _inputs(dag: Graph) -> list[tuple[int, ...]]:
    order = dag.execution_order()
    position = {node: at for at, node in enumerate(order)}
    return [tuple(position[each] for each in dag.upstream(node)) for node in order]


def _members(dag: Graph) -> dict[int, None]:
    order = enumerate(dag.execution_order())
    return {at: None for at, node in order if dag.nodes[node].node_type not in _OUTSIDE}


def _union(sets: Iterator[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _bits(bits: int) -> Iterator[int]:
    while bits:
        yield _lowest(bits)
        bits &= bits - 1


def _nodes(order: Sequence[NodeId], bits: int) -> tuple[NodeId, ...]:
    return tuple(order[at] for at in _bits(bits))
