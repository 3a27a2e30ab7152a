"""A DAG that was built in Python becomes tables, views and sinks of the database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laminar.checkpoint import DagCheckpointConfig
from laminar.connectors.sink import AT_LEAST_ONCE
from laminar.connectors.source import Source
from laminar.dag import (
    DagNode,
    DagNodeType,
    PartitioningStrategy,
    StatefulOperator,
    StreamingDag,
)
from laminar.dag.validate import refuse_mismatch
from laminar.delta.program import Shape
from laminar.errors import (
    DisconnectedNode,
    InvalidOperator,
    InvalidSchema,
    InvalidSetting,
    NotSupported,
)
from laminar.model.quoting import backquoted
from laminar.model.trace_name import is_plain
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition, ViewDefinition
from laminar.runtime.catalog.python_objects import OBJECT, Spread
from laminar.runtime.catalog.settings import Settings
from laminar.runtime.catalog.view_options import resolve
from laminar.runtime.engine.open import attach_operator
from laminar.runtime.epoch.python_operators import placed
from laminar.runtime.introspection.live_dag import schema_of
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.statements.create_drop import (
    create_operator,
    create_table,
    create_view,
)
from laminar.runtime.statements.create_sink import define_sink
from laminar.sql import relations_of
from laminar.sql.resolved_names import resolved_query
from laminar.sql.resolved_statements import in_full
from laminar.sql.schemas import DEFAULT, written_in_full
from laminar.sql.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class CodeSink:
    """A function, or a connector, that Python code hands in as a sink."""

    write: Callable[[int, DataFrame], object]
    promise: str = AT_LEAST_ONCE


def attach(engine: Engine, dag: StreamingDag) -> None:
    """Define every node of a DAG that is not defined yet, in execution order."""
    dag.validate()
    _refuse_unused(dag)
    _refuse_names(engine, dag)
    if dag.checkpoint_config is not None:
        engine.applied_settings.change(_settings(engine, dag.checkpoint_config))
    for node_id in dag.execution_order():
        node = dag.nodes[node_id]
        inputs = tuple(dag.nodes[each].name for each in dag.upstream(node_id))
        _refuse_mismatch(engine, node, inputs)
        match node.node_type:
            case DagNodeType.SOURCE:
                _source(engine, node)
            case DagNodeType.SINK:
                _sink(engine, node, inputs, _spread(dag, node))
            case _:
                _operator(engine, node, inputs, _spread(dag, node))


def _settings(engine: Engine, config: object) -> Settings:
    """Return the settings of the database with what a DAG says of checkpoints."""
    if not isinstance(config, DagCheckpointConfig):
        raise InvalidSetting("checkpoint_config", config, "a DagCheckpointConfig")
    on_off = {True: "on", False: "off"}
    given = {
        "interval_ms": str(round((config.interval or 0) * 1000)),
        "barrier": config.barrier_type.value.lower(),
        "timeout_ms": str(max(1, round(config.alignment_timeout * 1000))),
        "incremental": on_off[config.incremental],
        "max_concurrent": str(config.max_concurrent),
        "retained": str(config.retained),
        "copies": on_off[config.copies],
    }
    settings = engine.defined.settings
    for name, value in given.items():
        settings = settings.with_value(f"checkpoint_{name}", value)
    return settings


def _refuse_mismatch(engine: Engine, node: DagNode, inputs: tuple[str, ...]) -> None:
    """Refuse a node that expects other columns than what it reads has, as it is defined now."""
    if node.input_schema is not None:
        catalog = engine.defined.catalog
        for name in inputs:
            delivered = schema_of(catalog.shape(catalog.resolve(name)))
            refuse_mismatch(name, delivered, node.name, node.input_schema)


def _spread(dag: StreamingDag, node: DagNode) -> Spread:
    return tuple(
        (dag.nodes[edge.source].name, edge.partitioning)
        for edge in dag.edges.values()
        if edge.target == node.id and edge.partitioning is not None
    )


def _refuse_unused(dag: StreamingDag) -> None:
    """Refuse what an edge may say but running does not heed yet."""
    for edge in dag.edges.values():
        target = dag.nodes[edge.target]
        ends = f"{dag.nodes[edge.source].name} -> {target.name}"
        if edge.partitioning is not None and (
            target.operator is None or isinstance(target.operator, str)
        ):
            raise NotSupported(
                f"partitioning on the edge {ends}",
                "leave it out: Spark places the rows that a SQL operator reads",
            )
        if edge.source_port != 0:
            raise NotSupported(f"output port {edge.source_port} on the edge {ends}", "use port 0")


def _refuse_names(engine: Engine, dag: StreamingDag) -> None:
    """Refuse new names under which another one's parts or accumulators may be kept.

    A name with a dot is schema and name, whatever the schema that is current: a DAG outlives it.
    """
    names = engine.defined.catalog.names(DEFAULT)
    for node in dag.nodes.values():
        keeps_rows = node.node_type is not DagNodeType.SINK
        if keeps_rows and "." in node.name and names.identity(node.name) != node.name:
            hint = f"call it {names.identity(node.name)}"
            raise NotSupported(f'the name "{node.name}" in a DAG', hint)
        if keeps_rows and not is_plain(node.name) and not engine.defined.catalog.exists(node.name):
            raise NotSupported(f'the name "{node.name}"', "choose one without # and !")


def _source(engine: Engine, node: DagNode) -> None:
    connector = node.operator
    if connector is not None and not isinstance(connector, Source):
        raise InvalidOperator(connector)
    is_known = engine.defined.catalog.exists(node.name)
    if not is_known and node.output_schema is None:
        raise InvalidSchema(f'source "{node.name}" has no schema; give one with schema=')
    if is_known or node.output_schema is None:
        if connector is not None:
            with engine.ledger.turn(f"the connector of {node.name}"):
                before = engine.defined.sources.get(node.name)
                engine.work.inlets.attach_source(node.name, connector)
            if before is not None and before is not connector:
                engine.work.inlets.threads.part_from(before)
        return
    columns = tuple((each.name, each.type, each.nullable) for each in node.output_schema)
    create_table(
        engine,
        TableDefinition(
            node.name, columns, is_source=True, connector=OBJECT if connector is not None else None
        ),
        connector,
    )


def _operator(engine: Engine, node: DagNode, inputs: tuple[str, ...], spread: Spread) -> None:
    if not inputs:
        raise DisconnectedNode(node.name)
    if node.operator is None or isinstance(node.operator, str):
        if engine.defined.catalog.exists(node.name):
            _refuse_another_query(engine, node, inputs)
        else:
            options: dict[str, Any] = {**resolve({}, engine.defined.settings.text)}
            query = _query(engine, node, inputs)
            sql = "" if query == node.operator else _statement(engine, node)
            made = ViewDefinition(node.name, query, sql=sql, **options)
            if node.output_schema is not None:
                found = schema_of(engine.defined.catalog.compile(made).output.shape)
                refuse_mismatch(node.name, found, f"schema of {node.name}", node.output_schema)
            create_view(engine, made)
        return
    if engine.defined.catalog.exists(node.name):
        attach_operator(engine, node.name, node.operator, spread)
        return
    shape = _output_shape(engine, node, inputs)
    columns = tuple(zip(shape.columns, shape.types, strict=True))
    create_operator(engine, OperatorDefinition(node.name, inputs, columns), node.operator, spread)


def _refuse_another_query(engine: Engine, node: DagNode, inputs: tuple[str, ...]) -> None:
    """Refuse SQL that is not what the view of that name was defined with: it would be ignored."""
    catalog = engine.defined.catalog
    known = catalog.definitions[catalog.resolve(node.name)]
    query = _query(engine, node, inputs)
    if not isinstance(known, ViewDefinition) or _words(known.query) != _words(query):
        raise NotSupported(
            f'another definition of "{node.name}" in a DAG',
            f"CREATE OR REPLACE MATERIALIZED VIEW {written_in_full(node.name)} AS ... first,"
            " or drop it, or give the node another name",
        )


def _words(query: str) -> list[str]:
    return [token.text for token in tokenize(query)]


def _statement(engine: Engine, node: DagNode) -> str:
    """Return what a user would write for a node whose SQL names relations of other schemas."""
    if node.operator is None:
        return ""
    text = f"CREATE MATERIALIZED VIEW {written_in_full(node.name)} AS {node.operator}"
    return in_full(text, engine.defined.catalog.names(DEFAULT))


def _query(engine: Engine, node: DagNode, inputs: tuple[str, ...]) -> str:
    """Return a node's SQL; a node without an operator passes its inputs on."""
    if node.operator is None:
        return " UNION ALL ".join(f"SELECT * FROM {backquoted(name)}" for name in inputs)
    names = engine.defined.catalog.names(DEFAULT)
    query = resolved_query(node.operator, names, session=False).text
    connected = {name.lower() for name in inputs}
    for name in relations_of(query):
        if name.lower() not in connected:
            raise InvalidSchema(
                f'operator "{node.name}" reads "{name}", which is not connected to it'
            )
    return query


def _output_shape(engine: Engine, node: DagNode, inputs: tuple[str, ...]) -> Shape:
    """Take the declared schema, or ask the operator what it makes of nothing."""
    if node.output_schema is not None:
        fields = tuple(node.output_schema)
        return Shape(
            node.name, tuple(each.name for each in fields), tuple(each.type for each in fields)
        )
    if isinstance(node.operator, StatefulOperator) or hasattr(node.operator, "process"):
        raise InvalidSchema(f'operator "{node.name}" has no schema; give one with schema=')
    made = node.operator(*[_empty(engine, name) for name in inputs])
    if not hasattr(made, "schema"):
        raise InvalidOperator(made)
    names = tuple(each.name for each in made.schema.fields)
    types = tuple(each.dataType.simpleString() for each in made.schema.fields)
    return Shape(node.name, names, types)


def _empty(engine: Engine, name: str) -> DataFrame:
    """Return a frame with a relation's columns and no rows."""
    return engine.env.store.frame(
        engine.defined.catalog.shape(engine.defined.catalog.resolve(name)).ddl, ()
    )


def _sink(engine: Engine, node: DagNode, inputs: tuple[str, ...], spread: Spread) -> None:
    target: Any = node.operator
    write = target.write if hasattr(target, "write") else target
    if not callable(write):
        raise InvalidOperator(target)
    ways = dict(spread)
    promise = str(getattr(target, "promise", AT_LEAST_ONCE))
    for name in inputs:
        relation = engine.defined.catalog.resolve(name)
        called = node.name if len(inputs) == 1 else f"{node.name}({relation})"
        define_sink(
            engine,
            SinkDefinition(called, relation, OBJECT),
            CodeSink(_placing(write, ways.get(name)), promise),
        )


def _placing(
    write: Callable[[int, DataFrame], object], way: PartitioningStrategy | None
) -> Callable[[int, DataFrame], object]:
    return write if way is None else lambda epoch, frame: write(epoch, placed(frame, way))
