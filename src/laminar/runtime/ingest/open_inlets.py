"""The ways in that are open: each where the last epoch left it, and one per table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from laminar.errors import SourceAway, UnknownRelation
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.source_options import parse
from laminar.runtime.ingest.connector_inlet import SourceInlet
from laminar.runtime.ingest.inlet import Inlet, InletContext, Positions
from laminar.runtime.ingest.pushed_inlet import PushedInlet


class OpenInlets:
    """Table -> its way in.

    Law: a table never has two. Users push beside the writer, so whoever comes first opens it; one
    whose connector was replaced is closed before another one is opened.

    Args:
        defined: the tables, and their connectors.
        ledger: where they were left, and rows that wait.
        context: what all of them share.
        refused: table -> what to raise for one whose connector is away.
    """

    def __init__(
        self,
        defined: Defined,
        ledger: Positions,
        context: InletContext,
        refused: Callable[[str], SourceAway],
    ) -> None:
        self._defined = defined
        self._ledger = ledger
        self._context = context
        self._refused = refused
        self._inlets: dict[str, Inlet] = {}
        self._opening = threading.Lock()
        self._leaving: dict[str, SourceInlet] = {}  # not closed yet: a poll may be on its way

    def all(self) -> dict[str, Inlet]:
        """Return those that are open now."""
        return self._inlets.copy()

    def get(self, name: str) -> Inlet | None:
        """Return the way in of a table; None if it is not open."""
        return self._inlets.get(name)

    def of(self, name: str) -> Inlet:
        """Return the way in of a table; it is opened where the last epoch left it.

        Raises:
            SourceAway: its connector is not there.
        """
        self._end_other(name)
        with self._opening:
            definition = self._defined.catalog.definitions.get(name)
            if not isinstance(definition, TableDefinition):  # dropped while somebody waited
                raise UnknownRelation(name, sorted(self._defined.catalog.definitions))
            found = self._inlets.get(name)
            if found is None:
                found = self._inlets[name] = self._opened(definition)
            return found

    def _end_other(self, name: str) -> None:
        """Close a way that another one takes the place of; this may wait for its poll."""
        found = self._inlets.get(name)
        if found is not None and found.source is not self._defined.sources.get(name):
            self.forget(name)
        leaving = self._leaving.get(name)
        if leaving is not None:
            self._end(name, leaving)

    def _opened(self, definition: TableDefinition) -> Inlet:
        manifest, context = self._ledger.manifest, self._context
        position = manifest.offsets.get(definition.name)
        source = self._defined.sources.get(definition.name)
        options = parse(definition.options, pushed=source is None)
        if source is None and definition.connector is not None:
            raise self._refused(definition.name)
        if source is None:
            return PushedInlet(definition, options, context, self._ledger.pending, position or 0)
        return SourceInlet(definition, source, options, context, position, manifest.epoch)

    def forget(self, name: str) -> Callable[[], None] | None:
        """Part from the way of a table; one that is asked for again opens where it is committed.

        Returns:
            What ends its thread, for whoever has no turn: a poll may be on its way.
        """
        with self._opening:
            found = self._inlets.pop(name, None)
            if isinstance(found, SourceInlet):
                self._leaving[name] = found
                return partial(self._end, name, found)
            if found is not None:
                found.close()
            return None

    def _end(self, name: str, inlet: SourceInlet) -> None:
        inlet.close()
        with self._opening:
            if self._leaving.get(name) is inlet:
                del self._leaving[name]
