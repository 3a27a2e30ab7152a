"""From a manifest to an engine: what it defines is compiled, its connectors are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laminar.connectors import SourceSpec, create_source
from laminar.delta.program import Program
from laminar.errors import DuplicateName
from laminar.mv import MvState
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import (
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    from_json,
)
from laminar.runtime.catalog.python_objects import OBJECT, Spread, applied
from laminar.runtime.catalog.source_options import for_connector
from laminar.runtime.epoch.python_operators import restore
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.spark.session import own_session, partitions
from laminar.runtime.spark.typer import SparkTyper

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine


def define(engine: Engine) -> None:
    """Let an engine define what its manifest says, and nothing else."""
    engine.catalog = Catalog(SparkTyper(own_session(engine.spark, partitions())))
    engine.time = EventTime(lambda: engine.catalog, engine.limits)
    engine.tuning.apply()
    for definition in from_json(engine.manifest.catalog):
        if isinstance(definition, TableDefinition):
            open_source(engine, definition)
            engine.catalog.add_table(definition)
            engine.time.watermarks.add(definition)
        elif isinstance(definition, LateDefinition):
            engine.catalog.add_view(definition, engine.catalog.late_program(definition))
        elif isinstance(definition, OperatorDefinition):
            # Its operator is an object of Python code, which has to be given again.
            program = Program(definition.name, (applied(definition, None),))
            engine.catalog.add_view(definition, program)
        else:
            engine.catalog.add_view(definition, engine.catalog.compile(definition, is_stored=True))
    for name in engine.manifest.state.paused:
        engine.catalog.registry.set_state(name, MvState.PAUSED)
    engine.publisher.load(engine.manifest.state.sinks)
    engine.time.restore(engine.manifest)
    engine.storing.plan()
    if not engine.read_only:
        engine.publisher.open()


def open_source(engine: Engine, definition: TableDefinition) -> None:
    """Build a table's connector, if it names one."""
    if definition.connector not in (None, OBJECT) and not engine.read_only:
        options = for_connector(definition.options)
        spec = SourceSpec(definition.name, definition.schema, options)
        engine.sources[definition.name] = create_source(str(definition.connector), spec)


def attach_operator(engine: Engine, name: str, operator: Any, spread: Spread = ()) -> None:
    """Give a defined operator view its operator again, with the state it last had."""
    definition = engine.catalog.definitions[engine.catalog.resolve(name)]
    if not isinstance(definition, OperatorDefinition):
        raise DuplicateName(name)
    with engine.lock:
        engine.operators[definition.name] = operator
        engine.catalog.programs[definition.name] = Program(
            definition.name, (applied(definition, operator, spread),)
        )
        restore({definition.name: operator}, engine.manifest.state.operators)
        engine.storing.plan()
