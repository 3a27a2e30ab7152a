"""From the definition of a source to its connector, built on a thread of its own in good time."""

from __future__ import annotations

from concurrent.futures import Future, wait
from functools import partial

from laminar.connectors import Source, SourceSpec, close, create_source
from laminar.errors import ConnectorHung
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.source_options import for_connector
from laminar.runtime.ingest.connector_thread import (
    CLOSING_SECONDS,
    ConnectorThread,
    call_seconds,
    closed_when_done,
    in_background,
)

CONSTRUCTOR = "its constructor"


def needs_building(definition: TableDefinition) -> bool:
    """Whether a table names a connector that its options build."""
    return definition.connector not in (None, OBJECT)


class Building:
    """A connector on its way."""

    def __init__(self, definition: TableDefinition) -> None:
        self.definition = definition
        work = partial(_create, definition)
        self._future: Future[Source] = in_background(f"laminar-build-{definition.name}", work)

    @property
    def is_done(self) -> bool:
        """Whether its constructor has returned, or raised."""
        return self._future.done()

    def result(self, seconds: float) -> Source:
        """Return the connector, or raise what its constructor has.

        Raises:
            ConnectorHung: it has not returned in time; it may be waited for again.
        """
        if not wait([self._future], seconds).done:
            raise ConnectorHung(self.definition.name, CONSTRUCTOR, seconds)
        return self._future.result()

    def abandon(self) -> None:
        """Let it be closed once it is there: nobody wants it any more."""
        closed_when_done(self._future, close)


def build_source(definition: TableDefinition, default_ms: int) -> Source | None:
    """Build the connector that a table names; None if it has none, or one of Python code.

    Args:
        definition: the table.
        default_ms: how long it may take, if the table does not say.

    Raises:
        ConnectorHung: its constructor has not returned in time.
    """
    if not needs_building(definition):
        return None
    building = Building(definition)
    try:
        return building.result(call_seconds(definition, default_ms))
    except ConnectorHung:
        building.abandon()
        raise


def shut(name: str, source: Source) -> None:
    """Close a connector that was built for nothing; one that hangs is left alone."""
    ConnectorThread(name, CLOSING_SECONDS).end(partial(close, source))


def _create(definition: TableDefinition) -> Source:
    spec = SourceSpec(definition.name, definition.schema, for_connector(definition.options))
    return create_source(str(definition.connector), spec)
