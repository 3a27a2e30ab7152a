"""CREATE SINK and DROP SINK: who hears of a relation's changes from now on.

A connector is a user's code: it is built, begun, written to and closed outside of the turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.connectors.sink import AT_LEAST_ONCE, SinkConnector, begin_sink, close_sink
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
    sinks, name = engine.outputs.sinks, definition.name
    if connector is not None:
        with engine.ledger.turn(f"the sink {name}"):
            if sinks.attach(name, definition.relation, connector):
                return definition
    engine.ledger.turn.refuse_inside(f"CREATE SINK {name}")
    connector = connector or sinks.build(definition)
    try:
        sinks.refuse_shared(connector)
        begin_sink(connector)
        definition = _define(engine, definition, connector)
    except Exception:
        close_sink(connector)
        raise
    try:
        sinks.hand_over(name)
    except Exception:
        drop_sink(engine, name)
        raise
    return definition


def _define(engine: Engine, definition: SinkDefinition, connector: SinkConnector) -> SinkDefinition:
    """Commit that there is a sink, and let it have a connector."""
    sinks, relation = engine.outputs.sinks, definition.relation
    with engine.changing(f"CREATE SINK {definition.name}"):
        sinks.refuse_shared(connector)  # again: somebody may have been faster
        definition = replace(
            definition,
            relation=engine.defined.catalog.resolve(relation),
            from_epoch=engine.outputs.changelog.reach(engine.snapshot(), relation),
            promise=str(getattr(connector, "promise", AT_LEAST_ONCE)),
        )
        with sinks.adding(definition):
            engine.work.materialization.tap()
        sinks.connect(definition, connector, instead=True)
    return definition


def drop_sink(engine: Engine, name: str) -> None:
    """Forget a sink; what it has written stays."""
    sinks = engine.outputs.sinks
    with engine.changing(f"DROP SINK {name}"), sinks.removing([name]):
        engine.work.materialization.tap()
    sinks.close_retired()
