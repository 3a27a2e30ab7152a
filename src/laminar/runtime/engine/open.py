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
from laminar.runtime.spark.session import own_session, partitions
from laminar.runtime.spark.typer import SparkTyper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laminar.runtime.engine.engine import Engine


def typer(spark: SparkSession) -> SparkTyper:
    """Return what tells types of statements, in a session of its own."""
    return SparkTyper(own_session(spark, partitions()))


def define(engine: Engine) -> None:
    """Let an engine define what its manifest says, and nothing else."""
    catalog = engine.defined.catalog = Catalog(typer(engine.env.spark))
    engine.time.reset()
    engine.applied_settings.apply()
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
    engine.outputs.sinks.load(engine.ledger.manifest.state.sinks)
    engine.time.restore(engine.ledger.manifest)
    engine.work.materialization.plan()
    if not engine.env.read_only:
        engine.outputs.sinks.open()


def open_source(engine: Engine, definition: TableDefinition) -> None:
    """Build a table's connector, if it names one."""
    if definition.connector not in (None, OBJECT) and not engine.env.read_only:
        options = for_connector(definition.options)
        spec = SourceSpec(definition.name, definition.schema, options)
        engine.defined.sources[definition.name] = create_source(str(definition.connector), spec)


def attach_operator(engine: Engine, name: str, operator: Any, spread: Spread = ()) -> None:
    """Give a defined operator view its operator again, with the state it last had."""
    definition = engine.defined.catalog.definitions[engine.defined.catalog.resolve(name)]
    if not isinstance(definition, OperatorDefinition):
        raise DuplicateName(name)
    with engine.ledger.lock:
        engine.defined.operators[definition.name] = operator
        engine.defined.catalog.programs[definition.name] = Program(
            definition.name, (applied(definition, operator, spread),)
        )
        restore({definition.name: operator}, engine.ledger.manifest.state.operators)
        engine.work.materialization.plan()
