"""Sinks: how they come into a database, are altered, and leave it.

A connector is a user's code: it is built, begun, written to and closed outside of the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.connectors.sink import AT_LEAST_ONCE, SinkConnector, with_absolute_sink_paths
from laminar.errors import LaminarError, NotSupported
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.output.bounded_call import begun, bounded, end_aside, kept
from laminar.runtime.output.sink_definition import SinkDefinition, merged
from laminar.sql.rewrite_options import with_source_options

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine


def define_sink(
    engine: Engine, definition: SinkDefinition, connector: SinkConnector | None = None
) -> SinkDefinition:
    """Define a sink, and wait a while until it has all rows of now; if it refuses them, it is gone.

    A connector is given if it is an object of Python code. One that is known goes on from where
    it was.
    """
    sinks, name = engine.outputs.sinks, definition.name
    if connector is not None:
        with engine.ledger.turn(f"the sink {name}"):
            if sinks.attach(name, definition.relation, connector):
                return definition
    engine.ledger.turn.refuse_inside(f"CREATE SINK {name}")
    definition.rule  # noqa: B018 - is checked
    options = with_absolute_sink_paths(definition.connector, definition.options)
    if options != definition.options:
        sql = with_source_options(definition.sql, options)
        definition = replace(definition, options=options, sql=sql)
    made = connector or _built(engine, definition)
    with kept(name, made):
        sinks.refuse_shared(made, name)
    begun(name, made, sinks.waits.limits.timeout)
    with kept(name, made):
        definition = _add_sink(engine, definition, made)
    try:
        sinks.waits.await_first(definition)
    except Exception:
        drop_sink(engine, name)
        raise
    return definition


def _built(engine: Engine, definition: SinkDefinition) -> SinkConnector:
    """Build a connector; one that takes for ever keeps nobody but its thread."""
    sinks, name = engine.outputs.sinks, definition.name
    return bounded(
        name,
        lambda: sinks.build(definition),
        sinks.waits.limits.timeout,
        lambda late: end_aside(name, late),
    )


def _add_sink(
    engine: Engine, definition: SinkDefinition, connector: SinkConnector
) -> SinkDefinition:
    """Commit that there is a sink, and let it have a connector."""
    sinks, relation = engine.outputs.sinks, definition.relation
    with engine.changing(f"CREATE SINK {definition.name}"):
        sinks.refuse_shared(connector, definition.name)  # again: somebody may have been faster
        if definition.connector != OBJECT:
            engine.defined.catalog.schemas.require(definition.name)
        definition = replace(
            definition,
            relation=engine.defined.catalog.resolve(relation),
            from_epoch=engine.outputs.changelog.reach(engine.snapshot(), relation),
            promise=str(getattr(connector, "promise", AT_LEAST_ONCE)),
            born=engine.ledger.next_revision,
        )
        with sinks.adding(definition):
            engine.work.materialization.tap()
        sinks.connect(definition, connector)
    return definition


def drop_sink(engine: Engine, name: str) -> None:
    """Forget a sink; what it has written stays."""
    sinks = engine.outputs.sinks
    with engine.changing(f"DROP SINK {name}"), sinks.removing([name]):
        engine.work.materialization.tap()
    sinks.waits.close_retired()


def alter_sink(engine: Engine, name: str, given: Mapping[str, str]) -> SinkDefinition:
    """Give a sink other options; it goes on where it is, through a connector that is built of them.

    One that writes to another place then starts there with all rows, like a new one. Nothing is
    changed before the new connector is built, and has accepted a place that is new.
    """
    sinks = engine.outputs.sinks
    engine.ledger.turn.refuse_inside(f"ALTER SINK {name}")
    old = sinks.books.defined[name]
    if old.connector == OBJECT:
        raise NotSupported(f'altering "{name}", a sink of Python code', "change that code")
    if any(each.lower() == "connector" for each in given):
        raise NotSupported("another connector for a sink", "drop it, and create it anew")
    options = with_absolute_sink_paths(old.connector, merged(old.options, given))
    if options == old.options:
        return old
    new = replace(old, options=options, sql=with_source_options(old.sql, options))
    new.rule  # noqa: B018 - is checked
    made = _built(engine, new)
    with kept(name, made):
        sinks.refuse_shared(made, name)
        is_elsewhere = _is_elsewhere(_before(engine, old), made, old)
    if is_elsewhere:
        begun(name, made, sinks.waits.limits.timeout)
    with kept(name, made):
        new = _alter_sink(engine, old, new, made, anew=is_elsewhere)
    sinks.waits.settle([name])
    return new


def _before(engine: Engine, old: SinkDefinition) -> SinkConnector | None:
    """Return what a sink has written through, or what is built like it; None if it is away."""
    known = engine.outputs.sinks.connector(old.name)
    if known is not None:
        return known
    try:
        made = _built(engine, old)
    except LaminarError:
        return None
    end_aside(old.name, made)  # only where it would write is asked
    return made


def _is_elsewhere(before: SinkConnector | None, now: SinkConnector, old: SinkDefinition) -> bool:
    """Whether a sink would write to another place; that of one that is away is not known.

    Raises:
        NotSupported: to the same place, but in a way that what is there does not fit.
    """
    target = getattr(now, "target", None)
    if target is None:
        return False
    if before is None or getattr(before, "target", None) != target:
        return True
    if getattr(before, "layout", None) != getattr(now, "layout", None):
        hint = "name another place in the same statement, or drop the sink and create it anew"
        raise NotSupported(f'altering how "{old.name}" writes to {target}', hint)
    return False


def _alter_sink(
    engine: Engine, old: SinkDefinition, new: SinkDefinition, made: SinkConnector, *, anew: bool
) -> SinkDefinition:
    """Commit that a sink has other options, and let it have its connector."""
    sinks = engine.outputs.sinks
    with engine.changing(f"ALTER SINK {new.name}"):
        if sinks.books.defined.get(new.name) is not old:
            raise NotSupported(
                f'altering "{new.name}", which was altered meanwhile', "say it again"
            )
        sinks.refuse_shared(made, new.name)
        if anew:
            reach = engine.outputs.changelog.reach(engine.snapshot(), new.relation)
            new = replace(new, from_epoch=reach)
        new = replace(new, promise=str(getattr(made, "promise", AT_LEAST_ONCE)))
        with sinks.altering(new, anew=anew):
            engine.ledger.recommit()
        sinks.connect(new, made)
    return new
