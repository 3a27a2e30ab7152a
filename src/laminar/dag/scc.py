"""Strongly connected components: what cannot be put in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def strongly_connected(edges: Mapping[int, Iterable[int]]) -> list[tuple[int, ...]]:
    """Return the components of a graph, each after all those its edges lead to.

    Two nodes are in one component iff each reaches the other. Every target must be a key. Nodes
    are taken in the order of the mapping, so equal input gives equal output.
    """
    search = _Search(edges)
    for node in edges:
        if node not in search.number:
            search.explore(node)
    return search.components


class _Search:
    """Tarjan's algorithm with a stack of its own, so that Python's does not bound the depth.

    `number` says when a node was met, `low` the earliest open node that it is known to reach.
    A node is open until its component is complete; the first node of one reaches nothing earlier.
    """

    def __init__(self, edges: Mapping[int, Iterable[int]]) -> None:
        self.number: dict[int, int] = {}
        self.components: list[tuple[int, ...]] = []
        self._edges = edges
        self._low: dict[int, int] = {}
        self._open: list[int] = []
        self._walk: list[tuple[int, Iterator[int]]] = []

    def explore(self, root: int) -> None:
        """Find every component that the root reaches."""
        self._enter(root)
        while self._walk:
            node, targets = self._walk[-1]
            for target in targets:
                if target not in self.number:
                    self._enter(target)
                    break
                self._low[node] = min(self._low[node], self._low[target])
            else:
                self._leave(node)

    def _enter(self, node: int) -> None:
        self.number[node] = self._low[node] = len(self.number)
        self._open.append(node)
        self._walk.append((node, iter(self._edges[node])))

    def _leave(self, node: int) -> None:
        self._walk.pop()
        if self._low[node] == self.number[node]:
            self._close(node)
        elif self._walk:
            parent, _ = self._walk[-1]
            self._low[parent] = min(self._low[parent], self._low[node])

    def _close(self, first: int) -> None:
        members: list[int] = []
        while not members or members[-1] != first:
            members.append(self._open.pop())
        for node in members:
            # No later node may take a finished component for a way back.
            self._low[node] = len(self._edges)
        self.components.append(tuple(reversed(members)))
