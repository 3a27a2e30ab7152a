"""From a manifest to an engine: what it defines is compiled, its connectors are opened."""

from __future__ import annotations

from typing import Any

from laminar.connectors import Source, SourceSpec, create_source
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
from laminar.runtime.catalog.function_definitions import UserFunctions
from laminar.runtime.catalog.python_objects import OBJECT, Spread, applied
from laminar.runtime.catalog.source_options import for_connector
from laminar.runtime.catalog.user_schemas import UserSchemas
from laminar.runtime.engine.apply_settings import AppliedSettings
from laminar.runtime.engine.parts import Parts
from laminar.runtime.epoch.python_operators import restore
from laminar.runtime.history.turn import inside
from laminar.runtime.spark.typer import SparkTyper


def define(engine: Parts, settings: AppliedSettings) -> None:
    """Let an engine define what its manifest says, and nothing else.

    Connectors of tables are built where they are missing; `sinks.open` is for the caller.
    """
    catalog = engine.defined.catalog = Catalog(SparkTyper.beside(engine.env.spark))
    catalog.functions = UserFunctions.from_json(engine.ledger.manifest.state.functions)
    catalog.schemas = UserSchemas.from_json(engine.ledger.manifest.state.schemas)
    engine.time.reset()
    settings.apply()
    for definition in from_json(engine.ledger.manifest.catalog):
        if isinstance(definition, TableDefinition):
            open_source(engine, definition)
            catalog.add_table(definition)
            engine.time.watermarks.add(definition)
        elif isinstance(definition, LateDefinition):
            catalog.add_view(definition, catalog.late_program(definition))
        elif isinstance(definition, OperatorDefinition):
            # Its operator is an object of Python code, which has to be given again.
            program = Program(definition.name, (applied(definition, None),))
            catalog.add_view(definition, program)
        else:
            catalog.add_view(definition, catalog.compile(definition, is_stored=True))
    for name in engine.ledger.manifest.state.paused:
        catalog.registry.set_state(name, MvState.PAUSED)
    engine.scheduler.mark()
    engine.outputs.sinks.load(engine.ledger.manifest.state.sinks)
    engine.time.restore(engine.ledger.manifest)
    engine.work.materialization.plan()


def open_source(engine: Parts, definition: TableDefinition) -> None:
    """Let a table have its connector, unless it has one."""
    if not engine.env.read_only and definition.name not in engine.defined.sources:
        source = build_source(definition)
        if source is not None:
            engine.work.inlets.attach_source(definition.name, source)


def build_source(definition: TableDefinition) -> Source | None:
    """Build the connector that a table names; None if it has none, or one of Python code."""
    if definition.connector in (None, OBJECT):
        return None
    spec = SourceSpec(definition.name, definition.schema, for_connector(definition.options))
    return create_source(str(definition.connector), spec)


def attach_operator(engine: Parts, name: str, operator: Any, spread: Spread = ()) -> None:
    """Give a defined operator view its operator again, with the state it last had."""
    definition = engine.defined.catalog.definitions[engine.defined.catalog.resolve(name)]
    if not isinstance(definition, OperatorDefinition):
        raise DuplicateName(name)
    with engine.ledger.turn(f"the operator of {name}"):
        engine.defined.operators[definition.name] = operator
        engine.defined.catalog.programs[definition.name] = Program(
            definition.name, (applied(definition, operator, spread),)
        )
        with inside(engine.env.store.root, definition.name):
            restore({definition.name: operator}, engine.ledger.manifest.state.operators)
        engine.work.materialization.plan()
