"""In which order nodes may run: one after another, side by side, or not at all."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from laminar.model.ids import NodeId

Neighbours = Mapping[NodeId, Sequence[NodeId]]
"""For each node its successors (or predecessors); every node is a key."""


def topological_order(successors: Neighbours) -> tuple[NodeId, ...]:
    """Return the nodes so that each stands before all its successors, by Kahn's algorithm.

    Of the nodes that are ready the one with the smallest id goes first, so the order depends on
    nothing but the order of declaration. Nodes on or behind a cycle are missing from the result.
    """
    waiting = dict.fromkeys(successors, 0)
    for targets in successors.values():
        for target in targets:
            waiting[target] += 1
    ready = [node for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[NodeId] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for target in successors[node]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, target)
    return tuple(order)


def execution_waves(
    order: Sequence[NodeId], predecessors: Neighbours
) -> tuple[tuple[NodeId, ...], ...]:
    """Group an order into waves: wave(n) = 1 + the latest wave among n's predecessors.

    Nodes of one wave do not depend on each other and may run at the same time.
    """
    level: dict[NodeId, int] = {}
    waves: list[list[NodeId]] = []
    for node in order:
        level[node] = max((level[before] + 1 for before in predecessors[node]), default=0)
        if level[node] == len(waves):
            waves.append([])
        waves[level[node]].append(node)
    return tuple(tuple(sorted(wave)) for wave in waves)


def find_cycle(successors: Neighbours, names: Mapping[NodeId, str]) -> tuple[str, ...] | None:
    """Return the names along one cycle, the first repeated at the end; None if there is none."""
    stuck = set(successors).difference(topological_order(successors))
    if not stuck:
        return None
    # Whatever Kahn leaves over waits for a predecessor that is left over too, so walking
    # backwards never ends, and the first node met twice closes a cycle.
    waits_for = {
        target: node for node in sorted(stuck, reverse=True) for target in successors[node]
    }
    walk: dict[NodeId, None] = {}
    node = min(stuck)
    while node not in walk:
        walk[node] = None
        node = waits_for[node]
    path = list(walk)
    cycle = _from_smallest(path[path.index(node) :][::-1])
    return tuple(names[member] for member in (*cycle, cycle[0]))


def _from_smallest(cycle: list[NodeId]) -> list[NodeId]:
    """Turn a cycle so that its earliest node comes first: one cycle, one message."""
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]
