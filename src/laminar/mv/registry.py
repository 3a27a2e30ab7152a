"""Which views exist, what each of them reads, and in which order they can run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import replace

from laminar.errors import (
    DuplicateName,
    HasDependents,
    MvCycleDetected,
    SourceNotFound,
    ViewNotFound,
)
from laminar.mv.view import MaterializedView, MvState


class MvRegistry:
    """The base tables and views by name, and the graph of who reads whom.

    The graph is acyclic at all times: a statement that would break that, or name something
    unknown, raises and changes nothing. Names are compared whole and exactly. Lookups take
    constant time; the topological order is computed at most once per change of the graph.

    `len` and `in` speak of views; base tables answer to `is_base_table`.
    """

    def __init__(self) -> None:
        self._tables: dict[str, None] = {}
        self._views: dict[str, MaterializedView] = {}
        self._readers: dict[str, set[str]] = {}
        self._rank: dict[str, int] = {}
        self._order: tuple[str, ...] | None = ()
        self._version = 0

    @property
    def version(self) -> int:
        """A number that grows with every change of the graph; states do not count."""
        return self._version

    def __len__(self) -> int:
        return len(self._views)

    def __contains__(self, name: object) -> bool:
        return name in self._views

    # Base tables

    def register_base_table(self, name: str) -> None:
        """Make a table or source known, so that views may read it."""
        self._refuse_taken(name)
        self._tables[name] = None
        self._readers[name] = set()
        self._changed()

    def drop_base_table(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Forget a table, with `cascade` all views over it too; return the dropped, it last."""
        if name not in self._tables:
            raise ViewNotFound(name, self._tables)
        return self._drop(name, cascade=cascade)

    def is_base_table(self, name: str) -> bool:
        """Return whether the name is a base table's."""
        return name in self._tables

    def base_tables(self) -> tuple[str, ...]:
        """Return the base tables, first registered first."""
        return tuple(self._tables)

    # Definitions

    def register(self, view: MaterializedView) -> None:
        """Add a view over tables and views that are already here."""
        self._refuse_taken(view.name)
        self._refuse_cycle(view)
        self._refuse_unknown_sources(view)
        self._rank[view.name] = self._version
        self._readers[view.name] = set()
        self._link(view)

    def replace(self, view: MaterializedView) -> None:
        """Give an existing view another definition; it keeps its place and its readers."""
        old = self.view(view.name)
        self._refuse_cycle(view)
        self._refuse_unknown_sources(view)
        self._unlink(old)
        self._link(view)

    def drop(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Remove a view, with `cascade` all that depend on it too; return the dropped, it last.

        Every dropped view comes before what it read, so the order is one to tear down in.
        """
        self.view(name)
        return self._drop(name, cascade=cascade)

    def set_state(self, name: str, state: MvState) -> None:
        """Note that a view runs, pauses or failed; the graph stays as it is."""
        self._views[name] = replace(self.view(name), state=state)

    # Questions

    def get_view(self, name: str) -> MaterializedView | None:
        """Return the view of that name, or None."""
        return self._views.get(name)

    def view(self, name: str) -> MaterializedView:
        """Return the view of that name; an unknown one is an error."""
        try:
            return self._views[name]
        except KeyError:
            raise ViewNotFound(name, self._views) from None

    def views(self) -> tuple[MaterializedView, ...]:
        """Return all views, first registered first."""
        return tuple(self._views.values())

    def get_dependents(self, name: str) -> tuple[str, ...]:
        """Return the views that read `name` themselves, first registered first."""
        self._refuse_unknown(name)
        return tuple(sorted(self._readers[name], key=self._rank.__getitem__))

    def get_dependencies(self, name: str) -> tuple[str, ...]:
        """Return what `name` itself reads, as its definition lists it; tables read nothing."""
        self._refuse_unknown(name)
        return self._sources(name)

    def all_dependents(self, name: str) -> tuple[str, ...]:
        """Return the views that `name` reaches, however far, dependencies first."""
        self._refuse_unknown(name)
        reached = _reach(name, self._readers.__getitem__)
        return tuple(view for view in self.topo_order() if view in reached)

    def all_dependencies(self, name: str) -> tuple[str, ...]:
        """Return all that reaches `name`: base tables, then views, dependencies first."""
        self._refuse_unknown(name)
        reached = _reach(name, self._sources)
        return tuple(each for each in (*self._tables, *self.topo_order()) if each in reached)

    def topo_order(self) -> tuple[str, ...]:
        """Return the views so that each comes after what it reads.

        Among the orders that do, this is the one that follows registration most closely: of the
        views that could come next, the first registered does.
        """
        if self._order is None:
            self._order = self._sorted()
        return self._order

    def dependency_map(self) -> dict[str, tuple[str, ...]]:
        """Return what each name reads: base tables, then views, dependencies first."""
        return {name: self._sources(name) for name in (*self._tables, *self.topo_order())}

    # Inside

    def _sources(self, name: str) -> tuple[str, ...]:
        view = self._views.get(name)
        return tuple(view.sources) if view else ()

    def _known(self) -> tuple[str, ...]:
        return (*self._tables, *self._views)

    def _changed(self) -> None:
        self._version += 1
        self._order = None

    def _link(self, view: MaterializedView) -> None:
        self._views[view.name] = view
        for source in view.sources:
            self._readers[source].add(view.name)
        self._changed()

    def _unlink(self, view: MaterializedView) -> None:
        for source in view.sources:
            self._readers[source].discard(view.name)

    def _drop(self, name: str, *, cascade: bool) -> tuple[str, ...]:
        dependents = self.all_dependents(name)
        if dependents and not cascade:
            raise HasDependents(name, dependents)
        dropped = (*reversed(dependents), name)
        for each in dropped:
            self._forget(each)
        self._changed()
        return dropped

    def _forget(self, name: str) -> None:
        view = self._views.pop(name, None)
        if view:
            self._unlink(view)
        self._tables.pop(name, None)
        self._rank.pop(name, None)
        del self._readers[name]

    def _sorted(self) -> tuple[str, ...]:
        """Kahn's algorithm, with a heap so that the earliest registered of the ready goes next."""
        waiting = {
            name: sum(source in self._views for source in view.sources)
            for name, view in self._views.items()
        }
        ready = [(self._rank[name], name) for name, count in waiting.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            _, name = heapq.heappop(ready)
            order.append(name)
            for reader in self._readers[name]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (self._rank[reader], reader))
        return tuple(order)

    # Refusals: each leaves the registry as it was

    def _refuse_taken(self, name: str) -> None:
        if name in self._readers:
            raise DuplicateName(name)

    def _refuse_unknown(self, name: str) -> None:
        if name not in self._readers:
            raise ViewNotFound(name, self._known())

    def _refuse_unknown_sources(self, view: MaterializedView) -> None:
        for source in view.sources:
            if source not in self._readers:
                raise SourceNotFound(view.name, source, self._known())

    def _refuse_cycle(self, view: MaterializedView) -> None:
        path = self._path_back(view)
        if path:
            raise MvCycleDetected(path)

    def _path_back(self, view: MaterializedView) -> list[str]:
        """Return a way from the view along its sources back to itself, as the data would flow."""
        came_from = dict.fromkeys(view.sources, view.name)
        stack = list(reversed(view.sources))
        while stack:
            name = stack.pop()
            if name == view.name:
                return _walk(came_from, name)
            for source in self._sources(name):
                if source not in came_from:
                    came_from[source] = name
                    stack.append(source)
        return []


def _reach(start: str, step: Callable[[str], Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    stack = [start]
    while stack:
        for name in step(stack.pop()):
            if name not in reached:
                reached.add(name)
                stack.append(name)
    return reached


def _walk(came_from: dict[str, str], start: str) -> list[str]:
    """Follow readers from `start` until it comes round again."""
    path = [start, came_from[start]]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path
