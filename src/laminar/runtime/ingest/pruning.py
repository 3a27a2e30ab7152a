"""Sources that keep only what their views use: `WITH (retain = 'used')`.

Law: what is stored of such a source is always enough for every view there is. So a view that needs
more than is kept can be created as long as no row was taken, and is refused afterwards; the source
itself cannot be queried, for its rows are not all there. Watermarks see every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from laminar.bridge.prefix import Prefix, PrefixStage
from laminar.delta.program import Maintained
from laminar.errors import NotRetained
from laminar.plan.needs import Need, needs_of
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.source_options import parse
from laminar.runtime.ingest.arriving_rows import is_live

if TYPE_CHECKING:
    import pyarrow as pa

    from laminar.runtime.catalog.catalog import Catalog

UNREAD = Prefix((), (), ())
"""Nobody reads the source, so nothing is taken from it."""


def keeps_all(definition: TableDefinition) -> bool:
    """Whether a table keeps all its rows and columns, as tables do unless they say otherwise."""
    return parse(definition.options, pushed=definition.connector is None).keeps_all


def prefix_of(catalog: Catalog, definition: TableDefinition) -> Prefix:
    """Return what the views there are want of a source."""
    columns = definition.shape.columns
    needs = [
        need
        for program in catalog.programs.values()
        for relation in program.relations
        if definition.name in relation.reads
        for need in _needs(relation, definition)
    ]
    if not needs:
        return UNREAD
    wanted = {name for need in needs for name in need.columns} | {definition.event_time}
    kept = tuple(name for name in columns if name in wanted)
    pruned = tuple(name for name in columns if name not in wanted)
    tests = [need.test for need in needs]
    known = tuple(dict.fromkeys(test for test in tests if test is not None))
    return Prefix(kept, pruned, None if None in tests else known)


def _needs(relation: Maintained, definition: TableDefinition) -> list[Need]:
    shape = definition.shape
    node = getattr(relation, "node", None)
    if node is None:  # a query that is run as it is written, or a Python operator
        return [Need(frozenset(shape.columns), None)]
    return needs_of(node, definition.name, dict(zip(shape.columns, shape.types, strict=True)))


class SourcePruning:
    """What is kept of each source now.

    Args:
        defined: the sources, and the views over them.
        offsets: source -> how far it was read, if any row was.
    """

    def __init__(self, defined: Defined, offsets: Callable[[], Mapping[str, Any]]) -> None:
        self._defined = defined
        self._offsets = offsets
        self._kept: dict[str, Prefix] = {}  # as of the last commit; polling threads read it
        self._found: tuple[Catalog, int, dict[str, Prefix]] | None = None
        self.stages: dict[str, PrefixStage] = {}
        """Source -> what its prefix has seen, for those that have one."""

    def prefix(self, definition: TableDefinition) -> Prefix | None:
        """Return what is kept of a table's rows as they come; None if that is all.

        Of a connector with a primary key the newest row of each key is all that an epoch needs.
        Where a row may turn out to lie in the future and not count, the one before it might.
        """
        found = self._kept.get(definition.name)
        if found is not None or not (definition.connector and definition.upserts):
            return found
        source = self._defined.sources.get(definition.name)
        is_sure = definition.event_time is None or not is_live(source)
        return Prefix(definition.shape.columns, key=definition.primary_key) if is_sure else None

    def stage(self, definition: TableDefinition) -> Callable[[pa.Table], pa.Table] | None:
        """Return what makes rows those that are kept of them; None if that is all.

        It is good until `follow` names the table.
        """
        prefix = self.prefix(definition)
        if prefix is None:
            return None
        return partial(self.stages.setdefault(definition.name, PrefixStage()).run, prefix)

    def is_unread(self, name: str) -> bool:
        """Whether a source waits for the first view that reads it."""
        return self._kept.get(name) is UNREAD

    def _wanted(self) -> dict[str, Prefix]:
        """Work out what is wanted, once per change of definitions."""
        catalog, known = self._defined.catalog, self._found
        version = catalog.registry.version
        if known is None or known[0] is not catalog or known[1] != version:
            wanted = {
                name: prefix_of(catalog, each)
                for name, each in self._defined.tables().items()
                if not keeps_all(each)
            }
            known = self._found = (catalog, version, wanted)
        return dict(known[2])

    def require_kept(self) -> None:
        """Raise if the views there are now want more of a source than was kept of its rows."""
        for name, wanted in self._wanted().items():
            kept = self._kept.get(name)
            has_rows = self._offsets().get(name) is not None
            if kept is not None and has_rows and not kept.covers(wanted):
                more = sorted(set(wanted.columns) - set(kept.columns))
                what = f"columns {', '.join(more)} are" if more else "other rows are"
                raise NotRetained(name, f"{what} wanted, which were let go")

    def follow(self) -> list[str]:
        """Keep from now on what the committed views want.

        Returns:
            The sources of which something else was kept before: what of theirs has not been taken
            is to be read again.
        """
        before, self._kept = self._kept, self._wanted()
        return [name for name, wanted in self._kept.items() if before.get(name, wanted) != wanted]

    def forget(self) -> None:
        """Compare with nothing: other definitions come, with the rows that were kept for them."""
        self._kept, self._found = {}, None

    def refuse_reading(self, name: str) -> None:
        """Raise if a source cannot be read as it is."""
        if name in self._kept:
            raise NotRetained(name, "can be read through them alone")
