"""Sources that were away come back: connectors are built anew and take the old ones' place."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from laminar.connectors import Source
from laminar.errors import SourceAway
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.engine.call_all import call_all
from laminar.runtime.ingest.connector_building import needs_building
from laminar.runtime.ingest.connector_thread import call_seconds
from laminar.runtime.ingest.source_health import NOT_GIVEN
from laminar.store import Range

if TYPE_CHECKING:
    from laminar.runtime.engine.parts import Parts


class Returns:
    """Tries sources again that are away.

    A constructor is a user's code: it runs on a thread of its own, and the writer's turn is only
    taken to put what it made in place.
    """

    def __init__(self, engine: Parts) -> None:
        self._engine = engine

    def try_again(self, *, wait: bool = True) -> None:
        """Try those that are due.

        Args:
            wait: for their constructors, as long as one may take; the loop looks again instead.
        """
        for name in self._engine.work.inlets.away.due():
            self._try(name, wait=wait)

    def now(self, name: str) -> None:
        """Try one at once, because the user says so.

        Raises:
            SourceAway: it is still away, and tried again by itself.
        """
        away = self._engine.work.inlets.away
        self._engine.work.inlets.ask_at_once(name)
        if name in away:
            away.hurry(name)
            self._try(name, wait=True)
            self._engine.work.inlets.health.note()
            if name in away:
                raise away.error(name)

    def are_gone(self, taken: Iterable[Range], epoch: int) -> bool:
        """Whether a logged epoch would have to read from a source that is away."""
        away, kept = self._engine.work.inlets.away, self._engine.ledger.in_flight.holds(epoch)
        return not kept and any(each.table in away for each in taken)

    def _try(self, name: str, *, wait: bool) -> None:
        inlets = self._engine.work.inlets
        definition = self._engine.defined.catalog.definitions.get(name)
        if not isinstance(definition, TableDefinition):
            inlets.away.forget(name)
        elif not needs_building(definition):
            self._ask(definition)
        else:
            self._build(definition, wait=wait)

    def _ask(self, definition: TableDefinition) -> None:
        """Look whether an object of Python code is there, and has come back from its last call."""
        inlets, name = self._engine.work.inlets, definition.name
        source = self._engine.defined.sources.get(name)
        if source is None:
            inlets.away.note(name, SourceAway(name, NOT_GIVEN))
        elif inlets.threads.hangs(source):
            inlets.away.again(name)
        else:
            inlets.away.forget(name)

    def _build(self, definition: TableDefinition, *, wait: bool) -> None:
        inlets, name = self._engine.work.inlets, definition.name
        building = inlets.away.begin(definition)
        if not wait and not building.is_done:
            return
        try:
            made = building.result(call_seconds(definition, self._engine.defined.call_timeout_ms))
        except Exception as error:
            if building.is_done:
                inlets.away.taken(name)
            inlets.away.note(name, error)
            return
        inlets.away.taken(name)
        self._put(definition, made)

    def _put(self, definition: TableDefinition, made: Source) -> None:
        """Let a connector take the place of the one that was away, if it is still wanted."""
        engine, name = self._engine, definition.name
        inlets = engine.work.inlets
        unwanted: Source | None = made
        way = None
        try:
            with engine.ledger.turn(f"the connector of {name}"):
                if engine.defined.catalog.definitions.get(name) == definition:
                    way = inlets.ways.forget(name)
                    unwanted = engine.defined.sources.get(name)
                    engine.defined.sources[name] = made
                    inlets.away.forget(name)
        finally:
            ends = [] if way is None else [way]
            if unwanted is not None:
                ends.append(partial(inlets.threads.close, unwanted))
            call_all(ends)
        inlets.wake()
