"""CREATE SINK and DROP SINK: who hears of a relation's changes from now on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.connectors.sink import AT_LEAST_ONCE, SinkConnector, begin_sink
from laminar.runtime.output.sinks import SinkDefinition

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine


def define_sink(
    engine: Engine, definition: SinkDefinition, connector: SinkConnector | None = None
) -> SinkDefinition:
    """Define a sink and hand it all rows that its relation has now; if that fails, it is gone.

    A connector is given if it is an object of Python code. One that is known goes on from where
    it was.
    """
    sinks = engine.outputs.sinks
    with engine.ledger.lock:
        relation = definition.relation
        if connector is not None and sinks.attach(definition.name, relation, connector):
            return definition
        definition = replace(
            definition, from_epoch=engine.outputs.changelog.reach(engine.snapshot(), relation)
        )
        connector = connector or sinks.build(definition)
        sinks.refuse_shared(connector)
        begin_sink(connector)
        promise = str(getattr(connector, "promise", AT_LEAST_ONCE))
        definition = replace(definition, promise=promise)
        sinks.add(definition, connector)
        try:
            engine.work.materialization.tap()
            sinks.catch_up()
        except Exception:
            drop_sink(engine, definition.name)
            raise
        return definition


def drop_sink(engine: Engine, name: str) -> None:
    """Forget a sink; what it has written stays."""
    sinks = engine.outputs.sinks
    with engine.ledger.lock:
        sinks.remove(name)
        engine.work.materialization.tap()
        sinks.forget_cursors()
