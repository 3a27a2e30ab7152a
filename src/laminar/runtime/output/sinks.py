"""Sinks: every epoch reaches them once it is committed, in order, none is lost.

Each sink has a durable cursor, whether SQL defined it or Python code hands it in. What it has not
taken yet (after a crash, a failure, or a pause of what it reads) comes from the log of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from laminar.connectors import sink as sinks_at_large
from laminar.connectors.sink import (
    AT_LEAST_ONCE,
    SinkConnector,
    SinkSpec,
    close_sink,
    create_sink,
)
from laminar.errors import ConnectorError, LaminarError, NotSupported
from laminar.model.schema import Field, Schema
from laminar.runtime.catalog.defined import Defined
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.row_keys import row_key
from laminar.runtime.output.changelog import Need
from laminar.runtime.spark.error_translation import first_sentence
from laminar.store import durable_files
from laminar.store.cursors import CursorStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.history.snapshot import Snapshot
    from laminar.runtime.output.changelog import DagChangelogPropagator
    from laminar.runtime.relations.bindings import Bindings


@dataclass(frozen=True, slots=True)
class SinkDefinition:
    """A sink; it starts with all rows its relation has at the epoch it is created in."""

    name: str
    relation: str
    connector: str
    options: Mapping[str, str] = field(default_factory=dict)
    from_epoch: int = 0
    promise: str = AT_LEAST_ONCE
    sql: str = ""


class Publisher:
    """All sinks of a database, and how far each has come.

    Args:
        defined: what they read.
        log: tells what a sink has missed.
        snapshot: what readers see now.
        behind: view that is not at the newest epoch -> its epoch.
        cursors: how far each sink has come, on disk.
    """

    def __init__(
        self,
        defined: Defined,
        log: DagChangelogPropagator,
        snapshot: Callable[[], Snapshot],
        behind: Callable[[], Mapping[str, int]],
        cursors: CursorStore,
    ) -> None:
        self._relations = defined
        self._log = log
        self._snapshot = snapshot
        self._behind = behind
        self._defined: dict[str, SinkDefinition] = {}
        self._connectors: dict[str, SinkConnector] = {}
        self._cursors = cursors
        sinks_at_large.reached = lambda point: durable_files.failpoint(point)

    def sinks(self) -> Sequence[SinkDefinition]:
        """Return all sinks, first defined first."""
        return tuple(self._defined.values())

    def to_json(self) -> list[dict[str, Any]]:
        """Return the definitions as plain values."""
        return [asdict(each) for each in self._defined.values()]

    def load(self, data: Iterable[Mapping[str, Any]]) -> None:
        """Know the sinks of a reopened database."""
        self._defined.clear()
        for entry in data:
            definition = SinkDefinition(**entry)
            self._defined[definition.name] = definition

    def open(self) -> None:
        """Build the connectors of all known sinks; those of Python code wait until it is back."""
        for definition in self._defined.values():
            if definition.connector != OBJECT:
                self._connectors[definition.name] = self.build(definition)
        for name in [each for each in self._connectors if each not in self._defined]:
            close_sink(self._connectors.pop(name))
        self._cursors.keep_only(self._defined)

    def build(self, definition: SinkDefinition) -> SinkConnector:
        """Return the connector of a definition, which checks its options."""
        catalog = self._relations.catalog
        shape = catalog.shape(definition.relation)
        fields = tuple(map(Field, shape.columns, shape.types))
        key = row_key(definition.relation, catalog.relations.by_name, catalog.primary_keys())
        spec = SinkSpec(
            definition.name, definition.relation, Schema(fields), definition.options, key
        )
        return create_sink(definition.connector, spec)

    def refuse_shared(self, connector: SinkConnector) -> None:
        """Refuse a sink that would write where another one does."""
        target = getattr(connector, "target", None)
        for name, other in self._connectors.items():
            if target is not None and getattr(other, "target", None) == target:
                raise NotSupported(
                    f'a second sink for {target}, to which "{name}" writes', "choose another place"
                )

    def add(self, definition: SinkDefinition, connector: SinkConnector) -> None:
        """Make a sink known; it has taken nothing yet."""
        self._cursors.forget(definition.name)
        self._defined[definition.name] = definition
        self._connectors[definition.name] = connector

    def attach(self, name: str, relation: str, connector: SinkConnector) -> bool:
        """Give a sink of Python code its code again; say whether it is known."""
        known = self._defined.get(name)
        if known is None or (known.relation, known.connector) != (relation, OBJECT):
            return False
        self._connectors[name] = connector
        return True

    def remove(self, name: str) -> None:
        """Forget a sink; what it has written stays."""
        connector = self._connectors.pop(name, None)
        if connector is not None:
            close_sink(connector)
        del self._defined[name]

    def forget_cursors(self) -> None:
        """Forget how far sinks had come that were removed, now that this is committed."""
        self._cursors.keep_only(self._defined)

    def cursor(self, name: str) -> int | None:
        """Return the last epoch that a sink has taken."""
        found = self._cursors.get(name)
        return None if found is None else found.epoch

    def of(self, relations: Iterable[str]) -> list[str]:
        """Return the sinks of some relations."""
        wanted = set(relations)
        return [each.name for each in self.sinks() if each.relation in wanted]

    def tapped(self) -> frozenset[str]:
        """Return the relations whose changes some sink wants."""
        return frozenset(each.relation for each in self.sinks())

    def needs(self) -> Iterator[Need]:
        """Yield what is still needed to work out what a sink has not taken."""
        for each in self.sinks():
            taken = self.cursor(each.name)
            start = each.from_epoch if taken is None else taken
            yield Need(each.relation, start, is_away=each.name not in self._connectors)

    def publish(self, epoch: int, bindings: Bindings) -> None:
        """Hand a committed epoch to all sinks; one that fails does not keep it from the others."""
        failed: list[ConnectorError] = []
        for each in self._present():
            try:
                self._publish(each, epoch, bindings)
            except ConnectorError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _present(self) -> list[SinkDefinition]:
        held = self._behind()
        return [
            each
            for each in self.sinks()
            if each.name in self._connectors and each.relation not in held
        ]

    def _publish(self, sink: SinkDefinition, epoch: int, bindings: Bindings) -> None:
        if self.cursor(sink.name) != epoch - 1:
            self._catch_up(sink)
            return
        if bindings.state(sink.relation).changed:
            self._write(sink, epoch, bindings.consolidated_delta(sink.relation))
        self._cursors.advance(sink.name, epoch)

    def catch_up(self) -> None:
        """Publish what sinks have not taken yet."""
        for each in self._present():
            self._catch_up(each)

    def _catch_up(self, sink: SinkDefinition) -> None:
        log, snapshot = self._log, self._snapshot()
        taken = self.cursor(sink.name)
        if taken is None:
            taken = sink.from_epoch
            rows = log.between.content(snapshot, sink.relation, taken)
            if rows is not None:
                self._write(sink, taken, rows.frame)
            self._cursors.advance(sink.name, taken)
        for epoch in log.epochs(snapshot, sink.relation, taken):
            found = log.between.delta(snapshot, sink.relation, taken, epoch)
            if found is not None:
                self._write(sink, epoch, found.frame)
            taken = epoch
            self._cursors.advance(sink.name, taken)

    def _write(self, sink: SinkDefinition, epoch: int, delta: DataFrame) -> None:
        try:
            durable_files.failpoint("sink.before_publish")
            self._connectors[sink.name].write(epoch, delta)
            durable_files.failpoint("sink.after_publish")
        except LaminarError as error:
            raise ConnectorError(sink.name, error.message) from error
        except Exception as error:
            raise ConnectorError(sink.name, first_sentence(error)) from error

    def forget(self) -> None:
        """Forget all sinks, before others are loaded; what is an object of Python code stays."""
        for name in [each.name for each in self.sinks() if each.connector != OBJECT]:
            close_sink(self._connectors.pop(name))
        self._defined.clear()

    def close(self) -> None:
        """Close all connectors."""
        for connector in self._connectors.values():
            close_sink(connector)
