"""Runs statements: each kind has one method, and what has none is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from laminar.delta.change import Version
from laminar.errors import (
    BadViewOption,
    NotSupported,
    RelationExists,
    UnknownRelation,
)
from laminar.runtime.definitions import TableDefinition, ViewDefinition
from laminar.runtime.dml import Dml
from laminar.runtime.engine import Engine
from laminar.runtime.explain import explain_dag, explain_view
from laminar.runtime.places import ABOUT_A_STATEMENT, placed
from laminar.runtime.relations import Relations
from laminar.runtime.views import RefreshPolicy, refuse_own_columns
from laminar.sql import statements as s

Asked = Callable[..., Any]

_IMPLIED_EMIT = (s.EmitKind.ON_UPDATE, s.EmitKind.CHANGES)

_NOT_YET: dict[type[s.Statement], str] = {
    s.CreateSink: "CREATE SINK",
    s.AlterView: "ALTER MATERIALIZED VIEW",
    s.Refresh: "REFRESH MATERIALIZED VIEW",
    s.Merge: "MERGE",
    s.Checkpoint: "CHECKPOINT",
    s.Restore: "RESTORE",
    s.SetOption: "SET",
    s.ResetOption: "RESET",
}
"""Statements that can be written but not run."""

_OWN_SIGNS = "#!.`"
_OWN_ENDS = tuple(f"__{version.value}" for version in Version)


class Statements:
    """Maps statements to what the engine does."""

    def __init__(self, engine: Engine, dml: Dml, query: Asked, table: Asked) -> None:
        self._engine = engine
        self._dml = dml
        self._query = query
        self._table = table
        self._runners: dict[type[s.Statement], Callable[[Any], Any]] = {
            s.CreateTable: self._create_table,
            s.CreateView: self._create_view,
            s.Drop: self._drop,
            s.Insert: self._insert,
            s.Delete: lambda each: dml.delete_where(each.table, each.where),
            s.Update: lambda each: dml.update(each.table, each.assignments, each.where),
            s.Query: lambda each: query(each.text, as_of_epoch=each.as_of_epoch),
            s.Explain: self._explain,
            s.Describe: self._describe,
            s.Show: self._show,
            s.Pause: lambda each: engine.pause(self._view(each.name)),
            s.Resume: lambda each: engine.resume(self._view(each.name)),
        }

    def run(self, statement: s.Statement) -> Any:
        """Run one statement; an error says where in the script it belongs."""
        try:
            runner = self._runners.get(type(statement))
            if runner is None:
                raise NotSupported(_NOT_YET[type(statement)])
            return runner(statement)
        except ABOUT_A_STATEMENT as error:
            raise placed(error, statement) from error.__cause__

    def _create_table(self, statement: s.CreateTable) -> None:
        if self._is_there(statement.name, if_not_exists=statement.if_not_exists):
            return
        if statement.primary_key:
            raise NotSupported("PRIMARY KEY", "leave it out; a table is a bag of rows")
        if statement.watermark is not None:
            raise NotSupported("WATERMARK FOR", "leave it out")
        refuse_own_columns([column.name for column in statement.columns])
        options = dict(statement.options)
        connector = options.pop("connector", None)
        if connector is None and options:
            raise NotSupported(f"{next(iter(options))} without a connector", "leave it out")
        self._engine.create_table(
            TableDefinition(
                statement.name,
                tuple((f.name, f.type, f.nullable) for f in statement.schema.fields),
                is_source=statement.kind is s.RelationKind.SOURCE,
                connector=connector,
                options=options,
                sql=statement.text,
            )
        )

    def _create_view(self, statement: s.CreateView) -> None:
        if self._is_there(statement.name, if_not_exists=statement.if_not_exists):
            return
        self._engine.create_view(self._view_definition(statement))

    def _is_there(self, name: str, *, if_not_exists: bool) -> bool:
        """Whether a relation need not be created; raise if it cannot be."""
        if self._engine.catalog.exists(name):
            if if_not_exists:
                return True
            raise RelationExists(name)
        if any(sign in name for sign in _OWN_SIGNS) or name.lower().endswith(_OWN_ENDS):
            raise NotSupported(
                f'the name "{name}"',
                f"choose one without {' '.join(_OWN_SIGNS)} that does not end in"
                f" {', '.join(_OWN_ENDS)}",
            )
        return False

    def _view_definition(self, statement: s.CreateView) -> ViewDefinition:
        if statement.or_replace:
            raise NotSupported("OR REPLACE", "drop the view, then create it")
        if statement.emit is not None and statement.emit.kind not in _IMPLIED_EMIT:
            raise NotSupported(f"EMIT {statement.emit.kind.value}", "leave the clause out")
        if statement.lateness is not None:
            raise NotSupported("ALLOW LATENESS", "leave the clause out")
        if statement.late_data_to is not None:
            raise NotSupported("LATE DATA TO", "leave the clause out")
        return ViewDefinition(
            statement.name, statement.query, _policy(statement.options), statement.text
        )

    def _drop(self, statement: s.Drop) -> None:
        catalog = self._engine.catalog
        if not catalog.exists(statement.name) and statement.if_exists:
            return
        name = catalog.resolve(statement.name)
        definition = catalog.definitions[name]
        found = s.RelationKind.VIEW
        if isinstance(definition, TableDefinition):
            found = s.RelationKind.SOURCE if definition.is_source else s.RelationKind.TABLE
        if found is not statement.kind:
            raise UnknownRelation(
                f"{statement.kind.value} {statement.name}", [f"{found.value} {name}"]
            )
        self._engine.drop(name, cascade=statement.cascade)

    def _insert(self, statement: s.Insert) -> int:
        return self._dml.insert_query(
            statement.table, statement.columns, self._query(statement.query).spark()
        )

    def _view(self, name: str) -> str:
        catalog = self._engine.catalog
        found = catalog.resolve(name)
        if found not in catalog.programs:
            raise UnknownRelation(name, list(catalog.programs))
        return found

    def _explain(self, statement: s.Explain) -> Any:
        target = statement.target
        catalog = self._engine.catalog
        if isinstance(target, str):
            lines = explain_view(catalog.programs[self._view(target)], catalog.relations)
        elif isinstance(target, s.CreateView):
            self._is_there(target.name, if_not_exists=False)
            program = catalog.compile(self._view_definition(target))
            lines = explain_view(program, Relations())
        elif isinstance(target, s.ExplainDag):
            lines = self._explain_dag()
        else:
            raise NotSupported("EXPLAIN of a query", "explain a view")
        return self._table(["plan"], [(line,) for line in lines])

    def _explain_dag(self) -> list[str]:
        dag = self._engine.catalog.dag
        name = {node.id: node.name for node in dag.nodes.values()}
        return explain_dag(
            self._engine.catalog.programs,
            [[name[each] for each in wave] for wave in dag.waves()],
            [
                f"{name[edge.source]}->{name[edge.target]}: {edge.channel_type.value}"
                for edge in dag.edges.values()
            ],
            [
                f"{name[node]} ({shared.consumer_count} consumers)"
                for node, shared in dag.shared_stages().items()
            ],
        )

    def _describe(self, statement: s.Describe) -> Any:
        catalog = self._engine.catalog
        shape = catalog.shape(catalog.resolve(statement.name))
        return self._table(["column", "type"], list(zip(shape.columns, shape.types, strict=True)))

    def _show(self, statement: s.Show) -> Any:
        catalog, paused = self._engine.catalog, self._engine.paused
        match statement.what:
            case s.ShowKind.VIEWS:
                rows = [
                    (name, each.strategy.value, "paused" if name in paused else "running")
                    for name, each in catalog.programs.items()
                ]
                return self._table(["name", "strategy", "state"], rows)
            case s.ShowKind.TABLES | s.ShowKind.SOURCES:
                wanted = statement.what is s.ShowKind.SOURCES
                tables = [
                    each
                    for each in catalog.definitions.values()
                    if isinstance(each, TableDefinition) and each.is_source == wanted
                ]
                return self._table(
                    ["name", "connector"], [(each.name, each.connector or "") for each in tables]
                )
            case s.ShowKind.CREATE:
                name = catalog.resolve(statement.name or "")
                return self._table(["statement"], [(catalog.definitions[name].sql,)])
            case _:
                raise NotSupported(f"SHOW {statement.what.value}")


_POLICY = "refresh_policy"


def _policy(options: Mapping[str, str]) -> str:
    for name in options:
        if name != _POLICY:
            raise BadViewOption(name, known=(_POLICY,))
    chosen = options.get(_POLICY, RefreshPolicy.AUTO.value).lower()
    allowed = tuple(each.value for each in RefreshPolicy)
    if chosen not in allowed:
        raise BadViewOption(_POLICY, chosen, expected=", ".join(allowed))
    return chosen
