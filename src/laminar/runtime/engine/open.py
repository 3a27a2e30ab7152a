"""From a manifest to an engine: what it defines is compiled, its connectors are opened."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from laminar.delta.program import Program
from laminar.errors import DuplicateName, SourceAway
from laminar.mv import MvState
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    from_json,
)
from laminar.runtime.catalog.function_definitions import UserFunctions
from laminar.runtime.catalog.python_objects import Spread, applied
from laminar.runtime.catalog.user_schemas import UserSchemas
from laminar.runtime.engine.apply_settings import AppliedSettings
from laminar.runtime.engine.parts import Parts
from laminar.runtime.epoch.python_operators import restore
from laminar.runtime.history.turn import inside
from laminar.runtime.ingest.connector_building import needs_building
from laminar.runtime.ingest.connector_thread import call_seconds
from laminar.runtime.ingest.source_health import NOT_GIVEN
from laminar.runtime.spark.typer import SparkTyper

OPENING_SECONDS = 10.0
"""So long an opening waits for all constructors together; those that take longer come later."""


def define(engine: Parts, settings: AppliedSettings) -> None:
    """Let an engine define what its manifest says, and nothing else.

    Connectors of tables are built where they are missing; `sinks.open` is for the caller.
    """
    catalog = engine.defined.catalog = Catalog(SparkTyper.beside(engine.env.spark))
    catalog.functions = UserFunctions.from_json(engine.ledger.manifest.state.functions)
    catalog.schemas = UserSchemas.from_json(engine.ledger.manifest.state.schemas)
    engine.time.reset()
    settings.apply()
    definitions = from_json(engine.ledger.manifest.catalog)
    open_sources(engine, definitions)
    for definition in definitions:
        if isinstance(definition, TableDefinition):
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


def open_sources(engine: Parts, definitions: Sequence[Definition]) -> None:
    """Let tables have their connectors, unless they have; those that cannot be built are away.

    They are built side by side, so that no opening takes longer than its bound.
    """
    tables = [each for each in definitions if isinstance(each, TableDefinition)]
    missing = [each for each in tables if each.name not in engine.defined.sources]
    if engine.env.read_only:
        return
    away, until = engine.work.inlets.away, monotonic() + OPENING_SECONDS
    for each in missing:
        if needs_building(each):
            away.begin(each)
        elif each.connector is not None:
            away.note(each.name, SourceAway(each.name, NOT_GIVEN))
    for each in missing:
        if needs_building(each):
            seconds = call_seconds(each, engine.defined.call_timeout_ms)
            _adopt(engine, each, min(seconds, max(0.0, until - monotonic())))


def _adopt(engine: Parts, definition: TableDefinition, seconds: float) -> None:
    away, name = engine.work.inlets.away, definition.name
    building = away.begin(definition)
    try:
        made = building.result(seconds)
        away.taken(name)
        engine.work.inlets.attach_source(name, made)
    except Exception as error:
        if building.is_done:
            away.taken(name)
        away.note(name, error)


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
