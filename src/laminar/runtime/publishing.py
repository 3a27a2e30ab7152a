"""Sinks that SQL defines: every epoch reaches them once it is committed, in order, none is lost.

Each sink has a durable cursor. What it has not taken yet (after a crash, a failure, or a pause of
what it reads) is worked out again from the epochs that are kept: the difference of two contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from laminar.connectors.sink import AT_LEAST_ONCE, SinkConnector, SinkSpec, close_sink, create_sink
from laminar.errors import ConnectorError, LaminarError
from laminar.model.schema import Field, Schema
from laminar.runtime.redo import Redo
from laminar.runtime.refusals import first_sentence
from laminar.store.cursors import CursorStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine import Engine
    from laminar.runtime.faces import Faces


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
    """All sinks of a database, and how far each has come."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._defined: dict[str, SinkDefinition] = {}
        self._connectors: dict[str, SinkConnector] = {}
        self._cursors = CursorStore(engine.root)
        self._redo: Redo | None = None

    def sinks(self) -> Sequence[SinkDefinition]:
        """Return all sinks, first defined first."""
        return tuple(self._defined.values())

    def to_json(self) -> list[dict[str, Any]]:
        """Return the definitions as plain values."""
        return [asdict(each) for each in self._defined.values()]

    def load(self, data: Iterable[Mapping[str, Any]]) -> None:
        """Open the sinks of a reopened database."""
        for entry in data:
            definition = SinkDefinition(**entry)
            self._defined[definition.name] = definition
            self._connectors[definition.name] = self.build(definition)
        self._cursors.keep_only(self._defined)

    def build(self, definition: SinkDefinition) -> SinkConnector:
        """Return the connector of a definition, which checks its options."""
        shape = self._engine.catalog.shape(definition.relation)
        fields = tuple(map(Field, shape.columns, shape.types))
        spec = SinkSpec(definition.name, definition.relation, Schema(fields), definition.options)
        return create_sink(definition.connector, spec)

    def add(self, definition: SinkDefinition, connector: SinkConnector) -> None:
        """Make a sink known; it has taken nothing yet."""
        self._cursors.forget(definition.name)
        self._defined[definition.name] = definition
        self._connectors[definition.name] = connector

    def remove(self, name: str) -> None:
        """Forget a sink; what it has written stays."""
        close_sink(self._connectors.pop(name))
        del self._defined[name]

    def forget_cursors(self) -> None:
        """Forget how far sinks had come that were removed, now that this is committed."""
        self._cursors.keep_only(self._defined)

    def cursor(self, name: str) -> int | None:
        """Return the last epoch that a sink has taken."""
        return self._cursors.get(name)

    def of(self, relations: Iterable[str]) -> list[str]:
        """Return the sinks of some relations."""
        wanted = set(relations)
        return [each.name for each in self.sinks() if each.relation in wanted]

    def tapped(self) -> frozenset[str]:
        """Return the relations whose changes some sink wants."""
        return frozenset(each.relation for each in self.sinks())

    def pinned(self, epoch: int) -> frozenset[int]:
        """Return the epochs that are still needed to work out what a sink has not taken."""
        needed: set[int] = set()
        for each in self.sinks():
            start = self._start(each)
            # What is held has not changed since; its last content is enough.
            held = each.relation in self._engine.holding.since
            needed |= {start} if held else set(range(start, epoch + 1))
        return frozenset(needed)

    def publish(self, epoch: int, faces: Faces) -> None:
        """Hand a committed epoch to all sinks; one that fails does not keep it from the others."""
        failed: list[ConnectorError] = []
        for each in self.sinks():
            try:
                self._publish(each, epoch, faces)
            except ConnectorError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _publish(self, sink: SinkDefinition, epoch: int, faces: Faces) -> None:
        if sink.relation in self._engine.holding.since:
            return
        if self.cursor(sink.name) != epoch - 1:
            self._catch_up(sink)
            return
        if faces.state(sink.relation).changed:
            self._write(sink, epoch, faces.consolidated_delta(sink.relation))
        self._cursors.advance(sink.name, epoch)

    def catch_up(self) -> None:
        """Publish what sinks have not taken yet."""
        for each in self.sinks():
            if each.relation not in self._engine.holding.since:
                self._catch_up(each)

    def _catch_up(self, sink: SinkDefinition) -> None:
        taken = self.cursor(sink.name)
        last = self._engine.manifest.epoch
        if taken == last:
            return
        if self._redo is None:
            self._redo = Redo(self._engine)
        if taken is None:
            taken = sink.from_epoch
            self._write(sink, taken, self._redo.content(sink.relation, taken))
            self._cursors.advance(sink.name, taken)
        for manifest in self._engine.history():
            if manifest.epoch > taken:
                delta = self._redo.difference(sink.relation, taken, manifest.epoch)
                self._write(sink, manifest.epoch, delta)
                taken = manifest.epoch
                self._cursors.advance(sink.name, taken)

    def _start(self, sink: SinkDefinition) -> int:
        found = self.cursor(sink.name)
        return sink.from_epoch if found is None else found

    def _write(self, sink: SinkDefinition, epoch: int, delta: DataFrame) -> None:
        try:
            self._connectors[sink.name].write(epoch, delta)
        except LaminarError as error:
            raise ConnectorError(sink.name, error.message) from error
        except Exception as error:
            raise ConnectorError(sink.name, first_sentence(error)) from error

    def close(self) -> None:
        """Close all connectors."""
        for connector in self._connectors.values():
            close_sink(connector)


def define_sink(engine: Engine, definition: SinkDefinition) -> SinkDefinition:
    """Define a sink and hand it all rows that its relation has now; if that fails, it is gone."""
    with engine.lock:
        definition = replace(definition, from_epoch=engine.manifest.epoch)
        connector = engine.publisher.build(definition)
        promise = str(getattr(connector, "promise", AT_LEAST_ONCE))
        definition = replace(definition, promise=promise)
        engine.publisher.add(definition, connector)
        try:
            engine.tap()
            engine.publisher.catch_up()
        except Exception:
            drop_sink(engine, definition.name)
            raise
        return definition


def drop_sink(engine: Engine, name: str) -> None:
    """Forget a sink; what it has written stays."""
    with engine.lock:
        engine.publisher.remove(name)
        engine.tap()
        engine.publisher.forget_cursors()
