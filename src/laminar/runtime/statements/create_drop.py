"""Tables, views and operators: how they come into a database and leave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laminar.connectors.source import close
from laminar.delta.program import Program
from laminar.errors import HasDependents, NotSupported
from laminar.runtime.catalog.definitions import (
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
)
from laminar.runtime.catalog.python_objects import Spread, applied
from laminar.runtime.catalog.source_options import changed, parse
from laminar.runtime.engine.open import open_source
from laminar.runtime.event_time.late_batch import LATE_ROWS
from laminar.runtime.relations.trace_versions import versions_of
from laminar.sql.rewrite_options import with_source_options

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine


def create_table(engine: Engine, definition: TableDefinition) -> None:
    """Define a table or source; it is empty."""
    with engine.lock:
        engine.catalog.refuse_duplicate(definition.name)
        open_source(engine, definition)
        engine.catalog.add_table(definition)
        engine.time.watermarks.add(definition)
        engine.storing.plan()
        engine.recommit()


def configure_source(engine: Engine, name: str, given: Mapping[str, str]) -> None:
    """Set options of the way in of a source, from the next batch on."""
    with engine.changing():
        name = engine.catalog.resolve(name)
        definition = engine.catalog.definitions[name]
        if not isinstance(definition, TableDefinition) or not definition.is_source:
            raise NotSupported(f'options of "{name}", which is no source', "name a source")
        options = changed(definition.options, given)
        parse(options, pushed=definition.connector is None)
        sql = with_source_options(definition.sql, options) if definition.sql else ""
        engine.catalog.definitions[name] = replace(definition, options=options, sql=sql)
        engine.recommit()
        engine.inlets.forget(name)  # opened again with the options of now


def create_view(engine: Engine, definition: ViewDefinition) -> None:
    """Define a view and fill it from what its inputs hold now, at the current epoch."""
    late_to = definition.emission.late_to
    with engine.changing():
        engine.catalog.refuse_duplicate(definition.name)
        if late_to is not None:
            engine.catalog.refuse_duplicate(late_to)
        program = engine.catalog.compile(definition)
        if late_to is not None and program.late is None:
            raise NotSupported("LATE DATA TO here", "read one relation with event time")
        engine.catalog.add_view(definition, program)
        names = [definition.name]
        if late_to is not None:
            sink = LateDefinition(late_to, definition.name)
            engine.catalog.add_view(sink, engine.catalog.late_program(sink))
            names.append(late_to)  # empty, and at the epoch that the view begins with
        engine.storing.fill_and_commit(names, engine.manifest.traces)


def create_operator(
    engine: Engine, definition: OperatorDefinition, operator: Any, spread: Spread = ()
) -> None:
    """Define a view that a Python operator maintains, and fill it."""
    with engine.changing():
        engine.catalog.refuse_duplicate(definition.name)
        program = Program(definition.name, (applied(definition, operator, spread),))
        engine.operators[definition.name] = operator
        engine.catalog.add_view(definition, program)
        try:
            engine.storing.fill_and_commit((definition.name,), engine.manifest.traces)
        except Exception:
            del engine.operators[definition.name]
            raise


def drop(engine: Engine, name: str, *, cascade: bool = False) -> tuple[str, ...]:
    """Drop a relation and, if asked, all that reads it."""
    with engine.lock:
        dependents = engine.catalog.registry.all_dependents(name)
        sinks = engine.publisher.of((*dependents, name))
        readers = [each for each in dependents if not _is_late_of(engine, each, name)]
        if (readers or sinks) and not cascade:
            raise HasDependents(name, (*readers, *sinks))
        dropped = (*reversed(dependents), name)
        for each in sinks:
            engine.publisher.remove(each)
        for each in dropped:
            engine.catalog.remove(each)
            engine.time.forget(each)
            engine.inlets.forget(each)
            source = engine.sources.pop(each, None)
            if source is not None:
                close(source)
        engine.storing.plan()
        kept = versions_of(engine.catalog.relations, engine.manifest.traces)
        traces = {
            key: value
            for key, value in engine.manifest.traces.items()
            if key in kept or key == LATE_ROWS
        }
        offsets = {k: v for k, v in engine.manifest.offsets.items() if k not in dropped}
        engine.commit(engine.manifest.epoch, traces, offsets)
        # Ranges of a table that is gone must not be read from another one of its name.
        logged = engine.wal.open_after(engine.manifest.epoch)
        engine.wal.withdraw(engine.manifest.epoch + 1)
        for epoch in (each for each in logged if engine.in_flight.holds(each.epoch)):
            left = [each for each in epoch.ranges if each.table not in dropped]
            engine.wal.begin(epoch.epoch, left, epoch.now_ms, epoch.said)
        engine.epochs.forget_log(engine.manifest.epoch)
        engine.pending.keep_only(engine.tables())
        engine.publisher.forget_cursors()
        return dropped


def _is_late_of(engine: Engine, name: str, view: str) -> bool:
    """Whether a relation only takes a view's late rows, and goes with it."""
    found = engine.catalog.definitions[name]
    return isinstance(found, LateDefinition) and found.view == view
