"""How far event time has come at every table and view, and how that spreads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final, Protocol, TypeAlias

from laminar.errors import ViewNotFound

Advance: TypeAlias = tuple[str, int]
"""A name and its new watermark."""

UNSET: Final = -(2**63)
"""Below every watermark, so that `min` over the inputs carries "not yet known" along by itself."""

_Pick: TypeAlias = Callable[[Sequence[int]], tuple[int, ...]]
_Step: TypeAlias = tuple[int, str, _Pick]


class DependencyGraph(Protocol):
    """Who reads whom. An `MvRegistry` is one, and so is a `StreamingDag`."""

    @property
    def version(self) -> int:
        """A number that differs whenever the dependencies do."""
        ...

    def dependency_map(self) -> Mapping[str, tuple[str, ...]]:
        """Return what each name reads, every name after those it reads."""
        ...


class CascadingWatermarkTracker:
    """Watermarks of a graph of views, always settled.

    Law: a view's watermark is the highest value that the minimum over its active inputs ever had,
    or that it was told itself. So it never goes back, and it is unset while an active input is.

    An input is active unless marked idle. A view whose inputs are all idle is idle too, and keeps
    its value. Idleness and value are told apart: an update does not wake an idle input.

    Names keep their values when the graph changes; a name that left it is forgotten.
    """

    # Names are numbered in dependency order, so sorting numbers sorts by dependency. `_plans`
    # holds, for each name that was ever updated, the views its watermark can move, compiled to
    # what the hot loop needs. Idle inputs are compiled away, which keeps the loop free of tests.

    def __init__(self, graph: DependencyGraph) -> None:
        self._graph = graph
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._values: list[int] = []
        self._inputs: list[tuple[int, ...]] = []
        self._active: list[tuple[int, ...]] = []
        self._idle: list[bool] = []
        self._marked: set[str] = set()
        self._plans: dict[int, list[_Step]] = {}
        self._compile()

    def update_watermark(self, name: str, watermark: int) -> list[Advance]:
        """Raise a watermark and all that follow from it; return what moved, `name` first.

        A value that is not above the present one changes nothing. What moved comes in dependency
        order.
        """
        source = self._locate(name)
        values = self._values
        if watermark <= values[source]:
            return []
        values[source] = watermark
        moved = [(name, watermark)]
        for view, view_name, pick in self._plan(source):
            low = min(pick(values))
            if low > values[view]:
                values[view] = low
                moved.append((view_name, low))
        return moved

    def mark_idle(self, name: str) -> list[Advance]:
        """Leave an input out of every minimum until it is active again; return what moved."""
        self._locate(name)
        self._marked.add(name)
        return self._settle()

    def mark_active(self, name: str) -> list[Advance]:
        """Count an input again; it holds its readers where they are until it has caught up."""
        self._locate(name)
        self._marked.discard(name)
        return self._settle()

    def is_idle(self, name: str) -> bool:
        """Return whether the name is marked idle, or reads nothing but idle inputs."""
        view = self._locate(name)
        return self._idle[view]

    def get_watermark(self, name: str) -> int | None:
        """Return the watermark, or None while there is none."""
        view = self._locate(name)
        value = self._values[view]
        return None if value == UNSET else value

    def watermarks(self) -> dict[str, int]:
        """Return every watermark there is, in dependency order."""
        self._follow()
        pairs = zip(self._names, self._values, strict=True)
        return {name: value for name, value in pairs if value != UNSET}

    def restore(self, watermarks: Mapping[str, int]) -> None:
        """Take the values of a snapshot for all that are here, and forget all idleness.

        This alone may lower a watermark. Names in the snapshot that are no longer in the graph
        are passed over.
        """
        self._follow()
        self._values = [watermarks.get(name, UNSET) for name in self._names]
        self._marked.clear()
        self._settle()

    def __contains__(self, name: object) -> bool:
        self._follow()
        return name in self._index

    def _locate(self, name: str) -> int:
        """Return the number of a name; call it first, since it may number all names anew."""
        self._follow()
        try:
            return self._index[name]
        except KeyError:
            raise ViewNotFound(name, self._names) from None

    def _follow(self) -> None:
        if self._graph.version != self._version:
            self._compile()

    def _compile(self) -> None:
        """Number the names of the graph anew, keeping what is known of those that stayed."""
        known = dict(zip(self._names, self._values, strict=True))
        reads = self._graph.dependency_map()
        self._version = self._graph.version
        self._names = list(reads)
        self._index = {name: number for number, name in enumerate(self._names)}
        self._values = [known.get(name, UNSET) for name in self._names]
        self._inputs = [tuple(self._index[each] for each in reads[name]) for name in self._names]
        self._marked &= self._index.keys()
        self._settle()

    def _settle(self) -> list[Advance]:
        """Derive who is idle, raise every view to the law, and drop the compiled plans."""
        values = self._values
        idle: list[bool] = []
        active: list[tuple[int, ...]] = []
        moved: list[Advance] = []
        for view, (name, inputs) in enumerate(zip(self._names, self._inputs, strict=True)):
            awake = tuple(each for each in inputs if not idle[each])
            low = min((values[each] for each in awake), default=UNSET)
            if low > values[view]:
                values[view] = low
                moved.append((name, low))
            active.append(awake)
            idle.append(name in self._marked or (bool(inputs) and not awake))
        self._idle, self._active = idle, active
        self._plans = {}
        return moved

    def _plan(self, source: int) -> list[_Step]:
        plan = self._plans.get(source)
        if plan is None:
            plan = [
                (view, self._names[view], _picker(self._active[view]))
                for view in self._downstream(source)
            ]
            self._plans[source] = plan
        return plan

    def _downstream(self, source: int) -> list[int]:
        """Return the views that the source reaches through active inputs, in dependency order."""
        reached = {source}
        # Numbers follow the dependencies, so one pass upwards finds everything.
        for view in range(source + 1, len(self._names)):
            if not reached.isdisjoint(self._active[view]):
                reached.add(view)
        return sorted(reached - {source})


def _picker(inputs: tuple[int, ...]) -> _Pick:
    """Return a function that fetches the inputs' values as a tuple."""
    # A getter of one item returns it bare; asked twice for it, it returns a tuple for `min`.
    return itemgetter(*inputs) if len(inputs) > 1 else itemgetter(*inputs, *inputs)
