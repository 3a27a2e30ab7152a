"""SHOW, DESCRIBE and EXPLAIN: what is there, told without touching data."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from laminar.bridge.prefix import PrefixStage
from laminar.connectors.catalogue import SINK, SOURCE, described, listed
from laminar.errors import UnknownRelation
from laminar.model.quoting import backquoted
from laminar.runtime.catalog.consistency_groups import groups_of
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    TableDefinition,
    ViewDefinition,
)
from laminar.runtime.catalog.redaction import (
    shown_definition,
    shown_options,
    shown_properties,
    shown_sql,
)
from laminar.runtime.catalog.source_options import OPTIONS as OF_ALL_SOURCES
from laminar.runtime.catalog.storage_plan import BaseTable, StoragePlan
from laminar.runtime.catalog.view_options import OPTIONS
from laminar.runtime.ingest.pruning import UNREAD
from laminar.runtime.introspection.dependency_tree import dependency_lines
from laminar.runtime.introspection.explain import explain_dag, explain_view, storage_of
from laminar.runtime.introspection.system import TABLES
from laminar.runtime.introspection.system.views import states_of
from laminar.runtime.output.sink_definition import OPTIONS as OF_ALL_SINKS
from laminar.runtime.statements.query import Reader
from laminar.sql import statements as s
from laminar.sql.resolved_statements import in_full
from laminar.sql.schemas import CATALOG, DEFAULT, written_in_full
from laminar.sql.system import SYSTEM, system_table

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog
    from laminar.runtime.engine.engine import Engine

Listing = Callable[[list[str], Sequence[tuple[str, ...]]], Any]
"""Makes a result of column names and rows."""


class Showing:
    """Answers statements that ask about definitions."""

    def __init__(self, engine: Engine, reader: Reader, listing: Listing) -> None:
        self._engine = engine
        self._reader = reader
        self._listing = listing

    @property
    def _catalog(self) -> Catalog:
        return self._engine.snapshot().catalog

    def show(self, statement: s.Show) -> Any:
        """Answer SHOW."""
        schema = statement.schema or DEFAULT
        match statement.what:
            case s.ShowKind.VIEWS:
                return self._views(schema)
            case s.ShowKind.TABLES | s.ShowKind.SOURCES:
                return self._tables(schema, is_source=statement.what is s.ShowKind.SOURCES)
            case s.ShowKind.SINKS:
                return self._sinks(schema)
            case s.ShowKind.CHECKPOINTS:
                return self.checkpoints()
            case s.ShowKind.DEPENDENCIES:
                return self._dependencies(statement.name or "")
            case s.ShowKind.SCHEMAS:
                every = (DEFAULT, *self._catalog.schemas.names, SYSTEM)
                return self._listing(["schema"], [(name,) for name in every])
            case s.ShowKind.FUNCTIONS:
                return self._functions()
            case s.ShowKind.CONNECTORS:
                rows = [(each.name, each.kind, each.about) for each in listed()]
                return self._listing(["name", "kind", "about"], rows)
            case s.ShowKind.CREATE_FUNCTION:
                found = self._catalog.functions.require(statement.name or "")
                text = found.sql or f"-- {found.signature}: a {found.language} function"
                return self._listing(["statement"], [(text,)])
            case s.ShowKind.CREATE:
                return self._listing(["statement"], [(self._created(statement.name or ""),)])

    def _functions(self) -> Any:
        known = self._engine.env.functions.names()
        rows = [
            (
                each.name,
                each.language,
                each.signature,
                "ready" if each.is_sql or each.name.lower() in known else "not registered",
            )
            for each in self._catalog.functions.by_name.values()
        ]
        return self._listing(["name", "language", "signature", "state"], rows)

    def _describe_function(self, name: str) -> Any:
        found = self._catalog.functions.require(name)
        facts = {
            "function": found.signature,
            "language": found.language,
            "body": found.body,
            "comment": found.comment,
            "called by": ", ".join(
                (*self._catalog.callers(found.name), *self._catalog.functions.users(found.name))
            ),
        }
        return self._listing(["fact", "value"], [each for each in facts.items() if each[1]])

    def _describe_connector(self, name: str) -> Any:
        """List the options of a connector, then those that all of its kind have."""
        common = {SOURCE: OF_ALL_SOURCES, SINK: OF_ALL_SINKS}
        sides = described(name)
        options = [
            (f"{each.kind} {each.name}", option) for each in sides for option in each.options
        ]
        options += [(f"any {each.kind}", option) for each in sides for option in common[each.kind]]
        rows = [
            (
                each.name,
                of,
                f"{each.takes}, never shown" if each.is_secret else each.takes,
                each.default,
                "yes" if each.is_required else "",
                "yes" if each.is_alterable else "",
                each.about,
            )
            for of, each in options
        ]
        head = ["option", "of", "takes", "default", "required", "alterable", "about"]
        return self._listing(head, rows)

    def _describe_schema(self, name: str) -> Any:
        comment = self._catalog.schemas.comments.get(name, "")
        facts = {"catalog": CATALOG, "schema": name, "comment": comment}
        return self._listing(["fact", "value"], [each for each in facts.items() if each[1]])

    def _describe_sink(self, name: str) -> Any:
        sinks = self._engine.outputs.sinks
        found, status = sinks.books.defined[name], sinks.progress.status(name)
        options = (f"{option} = {value}" for option, value in shown_options(found.options))
        facts = {
            "sink": name,
            "reads": found.relation,
            "connector": found.connector,
            "options": ", ".join(options),
            "promise": found.promise,
            "state": status.state,
            "reason": status.reason or "",
            "epoch": "" if status.epoch is None else str(status.epoch),
            "lag_epochs": str(status.lag_epochs),
        }
        return self._listing(["fact", "value"], [each for each in facts.items() if each[1]])

    def _views(self, schema: str) -> Any:
        states, schemas = states_of(self._engine), self._catalog.schemas
        rows = [
            (schemas.shown(name), each.strategy.value, states[name][0])
            for name, each in self._catalog.programs.items()
            if schemas.of(name) == schema
        ]
        return self._listing(["name", "strategy", "state"], rows)

    def _tables(self, schema: str, *, is_source: bool) -> Any:
        schemas = self._catalog.schemas
        rows = [
            (schemas.shown(each.name), each.connector or "")
            for each in self._catalog.definitions.values()
            if isinstance(each, TableDefinition) and each.is_source == is_source
            if schemas.of(each.name) == schema
        ]
        return self._listing(["name", "connector"], rows)

    def _sinks(self, schema: str) -> Any:
        schemas, known = self._catalog.schemas, self._engine.outputs.sinks.progress.statuses()
        rows = [
            (
                schemas.shown(each.name),
                each.relation,
                each.connector,
                each.promise,
                known[each.name].state,
            )
            for each in self._engine.outputs.sinks.books.sinks()
            if each.name in known and schemas.of(each.name) == schema
        ]
        return self._listing(["name", "relation", "connector", "promise", "state"], rows)

    def checkpoints(self, only: int | None = None) -> Any:
        """List all checkpoints, or one of them."""
        table = TABLES["checkpoints"]
        names = [name for name, _ in table.columns]
        rows = table.rows(self._engine, self._engine.snapshot())
        shown = [row for row in rows if only is None or row[0] == only]
        texts = [tuple("" if each is None else str(each) for each in row) for row in shown]
        return self._listing(names, texts)

    def _dependencies(self, name: str) -> Any:
        sink = find_sink(self._engine, name)
        reads: dict[str, Sequence[str]] = dict(self._catalog.registry.dependency_map())
        if sink is not None:
            reads[sink] = [each.relation for each in self._engine.outputs.sinks.books.sinks()
                           if each.name == sink]  # fmt: skip
        lines = dependency_lines(sink or self._catalog.resolve(name), reads)
        return self._listing(["dependencies"], [(line,) for line in lines])

    def _created(self, name: str) -> str:
        sink = find_sink(self._engine, name)
        for each in self._engine.outputs.sinks.books.sinks():
            if each.name == sink:
                return self._in_full(shown_sql(each.sql, each.connector))
        definition = self._catalog.definitions[self._catalog.resolve(name)]
        shown = shown_definition(definition)
        return self._in_full(shown) if shown else _statement_of(definition.name, definition)

    def _in_full(self, text: str) -> str:
        """Return the text of a definition that works from every schema, where there are several."""
        return in_full(text, self._catalog.names(DEFAULT)) if self._catalog.schemas.names else text

    def describe(self, statement: s.Describe) -> Any:
        """Answer DESCRIBE: one row per column."""
        if statement.is_connector:
            return self._describe_connector(statement.name)
        head = ["column", "type", "nullable", "key", "value", "comment"]
        if statement.is_function:
            return self._describe_function(statement.name)
        if statement.is_schema:
            return self._describe_schema(statement.name)
        table = system_table(statement.name)
        if table is not None:
            if table not in TABLES:
                raise UnknownRelation(statement.name, [f"{SYSTEM}.{each}" for each in TABLES])
            return self._listing(
                head, [(*each, "yes", "", "", "") for each in TABLES[table].columns]
            )
        sink = find_sink(self._engine, statement.name)
        if sink is not None:
            return self._describe_sink(sink)
        name = self._catalog.resolve(statement.name)
        definition, shape = self._catalog.definitions[name], self._catalog.shape(name)
        nulls: dict[str, bool] = {}
        key: tuple[str, ...] = ()
        said: dict[str, tuple[str, str]] = {}
        if isinstance(definition, TableDefinition):
            nulls = {column: nullable for column, _, nullable in definition.columns}
            key, said = definition.primary_key, _said(definition)
        rows = [
            (
                column,
                _declared(definition, column, kind, dict(shape.chars)),
                "yes" if nulls.get(column, True) else "no",
                "primary" if column in key else "",
                *said.get(column, ("", "")),
            )
            for column, kind in zip(shape.columns, shape.types, strict=True)
        ]
        return self._listing(head, [*rows, *_about(definition)])

    def explain_view(self, name: str) -> Any:
        """Answer EXPLAIN MATERIALIZED VIEW; the name is a view's."""
        lines = explain_view(self._catalog.programs[name], self._catalog.relations)
        return self._plan([*lines[:3], *self._progress(name), *lines[3:]])

    def _progress(self, name: str) -> list[str]:
        """Say when a view steps and with whom."""
        scheduler = self._engine.scheduler
        group = next(each for each in scheduler.groups() if name in each.members)
        own = self._catalog.definitions[name]
        counts = scheduler.schedules()[name].text
        given = own.schedule if isinstance(own, ViewDefinition) else counts
        state, why = states_of(self._engine)[name]
        together = "none" if group.number is None else f"{group.told()}, epoch {group.group.epoch}"
        return [
            f"schedule: {given}" + (f" ({counts})" if counts != given else ""),
            f"group: {together}",
            f"state: {state}, at epoch {scheduler.cursor(name)}" + (f" ({why})" if why else ""),
        ]

    def explain_new(self, definition: ViewDefinition) -> Any:
        """Answer EXPLAIN CREATE MATERIALIZED VIEW."""
        try:
            return self._plan(explain_view(self._catalog.compile(definition), StoragePlan()))
        finally:
            # A view of that name, which this one may replace, keeps its columns.
            self._catalog.declare([name for name in self._catalog.programs
                                   if name.lower() == definition.name.lower()])  # fmt: skip

    def explain_query(self, query: s.Query) -> Any:
        """Answer EXPLAIN SELECT: the epoch, what is read and how that is stored, Spark's plan."""
        answer = self._reader.query(query.text, query.as_of_epoch, query.pasts)
        lines = [f"epoch: {answer.epoch}", "reads:"]
        for shape in answer.shapes.values():
            lines.append(f"  {shape.name}: {self._stored(shape.name)}")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            answer.frame.explain()
        return self._plan([*lines, "plan:", *_indented(printed.getvalue())])

    def _stored(self, name: str) -> str:
        relation = self._catalog.relations.by_name.get(name)
        if relation is None:
            return "what the system knows of itself"
        trace = self._engine.snapshot().manifest.traces.get(name)
        held = f", {trace.rows} rows in {len(trace.segments)} segments" if trace else ""
        how = (
            "stored"
            if isinstance(relation, BaseTable)
            else storage_of(relation, self._catalog.relations)
        )
        return f"{how}{held}"

    def explain_dag(self) -> Any:
        """Answer EXPLAIN DAG."""
        catalog = self._catalog
        found = [each.told() for each in groups_of(catalog) if each.number is not None]
        sinks = [(each.name, each.relation) for each in self._engine.outputs.sinks.books.sinks()]
        lines = explain_dag(catalog.dag, catalog.programs, found, sinks, catalog.relations)
        return self._plan(lines + self._prefixes())

    def _prefixes(self) -> list[str]:
        """Say what is kept of sources that do not keep all, and what that has saved so far."""
        found = []
        pruning = self._engine.work.pruning
        for name, definition in self._engine.defined.tables().items():
            prefix = pruning.prefix(definition)
            if prefix is None:
                continue
            stage = pruning.stages.get(name, PrefixStage()).counters
            test = "" if prefix.test is None or prefix is UNREAD else f" where {prefix.test}"
            kept = "nothing, for no view reads it"
            if prefix is not UNREAD:
                kept = f"{', '.join(prefix.columns) or 'no column'}{test}"
            if prefix.key:
                kept = f"the last row of each {', '.join(prefix.key)} of a poll"
            found.append(
                f"Prefix of {name}: keeps {kept} (columns pruned: {len(prefix.pruned)}, rows in:"
                f" {stage.rows_in}, rows surviving: {stage.rows_kept})"
            )
        return found

    def _plan(self, lines: list[str]) -> Any:
        return self._listing(["plan"], [(line,) for line in lines])


def find_sink(engine: Engine, name: str) -> str | None:
    """Return a sink's name as it was defined, if there is one."""
    known = (each.name for each in engine.outputs.sinks.books.sinks())
    return next((each for each in known if each.lower() == name.lower()), None)


def _declared(definition: Definition, column: str, kind: str, chars: Mapping[str, str]) -> str:
    """Return a column's type as it was declared; text of a length is stored as any other."""
    lengths = dict(definition.lengths) if isinstance(definition, TableDefinition) else {}
    if column in chars:
        return chars[column]
    return f"varchar({lengths[column]})" if column in lengths else kind


def _said(definition: TableDefinition) -> dict[str, tuple[str, str]]:
    """Return column -> the value that it has by itself, and what the user says of it."""
    values = {name: f"DEFAULT {value}" for name, value in definition.defaults}
    values |= {name: f"GENERATED ALWAYS AS ({value})" for name, value in definition.generated}
    comments = dict(definition.comments)
    return {name: (values.get(name, ""), comments.get(name, "")) for name, *_ in definition.columns}


def _about(definition: Definition) -> list[tuple[str, ...]]:
    """Return lines below the columns, as Spark has them: constraints, comment, properties."""
    if not isinstance(definition, TableDefinition | ViewDefinition):
        return []
    checks = definition.checks if isinstance(definition, TableDefinition) else ()
    lines = [(f"# Constraint {name}", f"CHECK ({condition})") for name, condition in checks]
    lines += [("# Comment", definition.comment)] if definition.comment else []
    lines += [
        (f"# Property {name}", value) for name, value in shown_properties(definition.properties)
    ]
    return [(name, "", "", "", value, "") for name, value in lines]


def _statement_of(name: str, definition: Definition) -> str:
    """Write a statement for what was defined in Python, or by a clause of another one."""
    if isinstance(definition, ViewDefinition):
        chosen = {key: getattr(definition, key) for key in OPTIONS}
        other = [
            f"{key} = '{value}'" for key, value in chosen.items() if value != OPTIONS[key].default
        ]
        options = f" WITH ({', '.join(other)})" if other else ""
        return f"CREATE MATERIALIZED VIEW {_named(name)}{options} AS {definition.query}"
    if isinstance(definition, TableDefinition):
        listed = ", ".join(
            f"{backquoted(column)} {kind}{'' if nullable else ' NOT NULL'}"
            for column, kind, nullable in definition.columns
        )
        kind = "SOURCE" if definition.is_source else "TABLE"
        return f"CREATE {kind} {_named(name)} ({listed})"
    if isinstance(definition, LateDefinition):
        return f"-- {name}: rows that are late for {definition.view}"
    return f"-- {name}: a Python operator over {', '.join(definition.reads)}"


def _named(identity: str) -> str:
    return written_in_full(identity) if "." in identity else backquoted(identity)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines() if line.strip()]
