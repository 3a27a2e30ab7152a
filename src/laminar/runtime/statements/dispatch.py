"""Runs statements: each kind has one method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laminar.delta.change import Version
from laminar.delta.emission import Emission, Mode
from laminar.errors import (
    ForeignCode,
    NotSupported,
    NoWatermark,
    RelationExists,
    SqlSyntaxError,
    UnknownCatalog,
    UnknownRelation,
)
from laminar.model.char_columns import has_lengths, text_length
from laminar.model.trace_name import SIGNS
from laminar.model.types import normalise_type
from laminar.runtime.catalog.compile_view import refuse_own_columns
from laminar.runtime.catalog.definitions import TableDefinition, ViewDefinition
from laminar.runtime.catalog.source_options import for_connector, parse
from laminar.runtime.catalog.view_options import checked, resolve
from laminar.runtime.engine.recover import restore
from laminar.runtime.ingest.primary_keys import refuse_unfit_keys
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.statements.create_drop import (
    alter_source,
    create_schema,
    create_table,
    create_view,
    drop,
    drop_schema,
    is_schema,
)
from laminar.runtime.statements.create_sink import alter_sink, define_sink, drop_sink
from laminar.runtime.statements.pause import gate, pause, resume
from laminar.runtime.statements.replace import alter_view, replace_view
from laminar.runtime.statements.show import Listing, Showing, find_sink
from laminar.runtime.statements.user_code import create_function, drop_function
from laminar.sql import statements as s
from laminar.sql.error_places import ABOUT_A_STATEMENT, placed
from laminar.sql.foreign_code import foreign_code
from laminar.sql.intervals import micros
from laminar.sql.resolved_statements import Resolved, in_full, resolved
from laminar.sql.schemas import CATALOG, DEFAULT, Names, last_of, parts_of, schema_of
from laminar.sql.system import SYSTEM
from laminar.sql.watermarks import delay_of
from laminar.sql.with_options import without_connector

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.epoch.outcome import EpochReport
    from laminar.runtime.scheduling.epoch_plan import Hold
    from laminar.runtime.statements.dml import Dml
    from laminar.runtime.statements.query import Reader

_MODES = {
    s.EmitKind.ON_UPDATE: Mode.UPDATE,
    s.EmitKind.CHANGES: Mode.UPDATE,
    s.EmitKind.AFTER_WATERMARK: Mode.CLOSE,
    s.EmitKind.ON_WINDOW_CLOSE: Mode.CLOSE,
    s.EmitKind.FINAL: Mode.FINAL,
    s.EmitKind.PERIODICALLY: Mode.PERIODIC,
}

_OWN_SIGNS = f"{SIGNS}.`"
_OWN_ENDS = tuple(f"__{version.value}" for version in Version)


class StatementRunner:
    """Maps statements to what the engine does."""

    def __init__(
        self,
        engine: Engine,
        dml: Dml,
        reader: Reader,
        query: Callable[..., Any],
        listing: Listing,
        told: Callable[[Callable[[], EpochReport | None]], EpochReport | None],
    ) -> None:
        self._engine = engine
        self._dml = dml
        self._query = query
        self._listing = listing
        self._told = told
        self._showing = Showing(engine, reader, listing)
        self.schema = DEFAULT
        """The schema that names of one part are in, until USE says another."""
        self._runners: dict[type[s.Statement], Callable[[Any], Any]] = {
            s.CreateTable: self._create_table,
            s.CreateView: self._create_view,
            s.CreateSink: self._create_sink,
            s.CreateFunction: lambda each: create_function(engine, each),
            s.DropFunction: lambda each: drop_function(engine, each),
            s.CreateSchema: self._create_schema,
            s.DropSchema: self._drop_schema,
            s.AlterView: self._alter_view,
            s.AlterSink: self._alter_sink,
            s.AlterSource: lambda each: alter_source(
                engine, self._table(each.name), dict(each.options)
            ),
            s.Drop: self._drop,
            s.Insert: self._insert,
            s.Delete: lambda each: dml.delete_where(each.table, each.where),
            s.Update: lambda each: dml.update(each.table, each.assignments, each.where),
            s.Merge: dml.merge,
            s.Query: lambda each: query(each.text, each.as_of_epoch, each.pasts),
            s.Explain: self._explain,
            s.Describe: self._showing.describe,
            s.Show: self._showing.show,
            s.Use: self._use,
            s.Pause: self._pause,
            s.Resume: self._resume,
            s.Refresh: self._refresh,
            s.SetOption: lambda each: self._set(
                engine.defined.settings.with_value(each.name, each.value)
            ),
            s.Checkpoint: self._checkpoint,
            s.Restore: self._restore,
            s.ResetOption: lambda each: self._set(engine.defined.settings.without(each.name)),
        }

    def run(self, statement: s.Statement) -> Any:
        """Run one statement; an error says where in the script it belongs."""
        self._refuse_foreign_code(statement)
        asked: Resolved | None = None
        try:
            asked = resolved(statement, self.names())
            return self._runners[type(statement)](asked.statement)
        except ABOUT_A_STATEMENT as error:
            if asked is not None:
                error = asked.pointed(error)
            raise placed(error, statement) from error.__cause__

    def _refuse_foreign_code(self, statement: s.Statement) -> None:
        """Refuse what runs Java or processes, whatever kind of statement it stands in."""
        trusts = self._engine.defined.settings.trusts
        for what, at, length in foreign_code(statement.text):
            if not trusts("trusted_functions", what):
                error = ForeignCode(what).at(statement.text, at, length)
                raise error.within(statement.location.line, statement.location.column)

    # Schemas

    def names(self) -> Names:
        """Return what written names stand for now."""
        return self._engine.snapshot().catalog.names(self.schema)

    def _use(self, statement: s.Use) -> None:
        self.schema = statement.schema

    def _create_schema(self, statement: s.CreateSchema) -> None:
        *catalog, name = parts_of(statement.name)
        if catalog and (len(catalog) > 1 or catalog[0].lower() != CATALOG):
            raise UnknownCatalog(".".join(catalog), CATALOG)
        if is_schema(self._engine.defined.catalog, name) and statement.if_not_exists:
            return
        _refuse_sign(name)
        create_schema(self._engine, name, statement.comment)

    def _drop_schema(self, statement: s.DropSchema) -> None:
        if statement.name:
            drop_schema(self._engine, statement.name, cascade=statement.cascade)

    def _text(self, text: str) -> str:
        """Return the text of a definition as it is kept: read where `default` is current."""
        return text if self.schema == DEFAULT else in_full(text, self.names())

    # Tables, views and sinks

    def _create_table(self, statement: s.CreateTable) -> None:
        if self._is_there(statement.name, if_not_exists=statement.if_not_exists):
            return
        statement = replace(statement, text=self._text(statement.text))
        create_table(self._engine, table_definition(statement))

    def _create_view(self, statement: s.CreateView) -> None:
        definition = self._view_definition(statement)
        if statement.or_replace and self._engine.defined.catalog.exists(statement.name):
            replace_view(self._engine, definition)
        elif not self._is_there(statement.name, if_not_exists=statement.if_not_exists):
            if definition.emission.late_to is not None:
                self._is_there(definition.emission.late_to, if_not_exists=False)
            create_view(self._engine, definition)

    def _create_sink(self, statement: s.CreateSink) -> Any:
        if self._is_there(statement.name, if_not_exists=statement.if_not_exists):
            return None
        relation = self._engine.defined.catalog.resolve(statement.source)
        self._engine.work.pruning.refuse_reading(relation)
        connector, options = without_connector(dict(statement.options))
        if connector is None:
            hint = "WITH (connector = 'files', path = '...')"
            raise SqlSyntaxError("a sink needs a connector", hint=hint)
        made = define_sink(
            self._engine,
            SinkDefinition(
                statement.name, relation, connector, options, sql=self._text(statement.text)
            ),
        )
        return self._listing(["sink", "promise"], [(made.name, made.promise)])

    def _is_there(self, name: str, *, if_not_exists: bool) -> bool:
        """Whether something need not be created; raise if it cannot be."""
        if self._engine.defined.catalog.exists(name) or find_sink(self._engine, name):
            if if_not_exists:
                return True
            raise RelationExists(name)
        if schema_of(name) == SYSTEM:
            raise NotSupported(f'"{name}" in {SYSTEM}', "it describes the system; name another")
        _refuse_sign(last_of(name))
        return False

    def _view_definition(self, statement: s.CreateView) -> ViewDefinition:
        statement = replace(statement, text=self._text(statement.text))
        made = view_definition(statement, self._engine.defined.settings.text)
        return self._engine.defined.catalog.expanded(made)

    def _alter_view(self, statement: s.AlterView) -> None:
        name = self._view(statement.name)
        alter_view(self._engine, name, checked(statement.options))

    def _alter_sink(self, statement: s.AlterSink) -> Any:
        made = alter_sink(self._engine, self._sink(statement.name), statement.options)
        return self._listing(["sink", "promise"], [(made.name, made.promise)])

    def _sink(self, name: str) -> str:
        found = find_sink(self._engine, name)
        if found is None:
            raise UnknownRelation(name, sorted(self._engine.outputs.sinks.books.defined))
        return found

    def _drop(self, statement: s.Drop) -> None:
        if statement.kind is s.RelationKind.SINK:
            if not statement.if_exists or find_sink(self._engine, statement.name):
                drop_sink(self._engine, self._sink(statement.name))
            return
        catalog = self._engine.defined.catalog
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
        drop(self._engine, name, cascade=statement.cascade)

    def _view(self, name: str) -> str:
        catalog = self._engine.defined.catalog
        found = catalog.resolve(name)
        if found not in catalog.programs:
            raise UnknownRelation(name, list(catalog.programs))
        return found

    # The rest

    def _insert(self, statement: s.Insert) -> int:
        return self._dml.insert_query(statement.table, statement.columns, statement.query)

    def _pause(self, statement: s.Pause) -> None:
        if statement.is_sink:
            self._engine.outputs.sinks.pause(self._sink(statement.name))
        elif statement.is_view:
            pause(self._engine, self._view(statement.name))
        else:
            gate(self._engine, self._table(statement.name), closed=True)

    def _resume(self, statement: s.Resume) -> None:
        if statement.is_sink:
            self._engine.outputs.sinks.resume(self._sink(statement.name))
        elif statement.is_view:
            name = self._view(statement.name)
            self._told(lambda: resume(self._engine, name))
        else:
            gate(self._engine, self._table(statement.name), closed=False)

    def _table(self, name: str) -> str:
        catalog = self._engine.defined.catalog
        found = catalog.resolve(name)
        if found in catalog.programs:
            raise UnknownRelation(name, list(self._engine.defined.tables()))
        return found

    def _refresh(self, statement: s.Refresh) -> Any:
        """Bring a view and all it reads to one new cut of the sources, whatever their schedules."""
        name = self._view(statement.name)
        hold = self._engine.scheduler.obstacle(name)
        if hold is not None:
            hint = f"RESUME {hold.because} first"
            raise NotSupported(f'refreshing "{name}", which {_stays(hold, name)}', hint)
        report = self._told(lambda: self._engine.refresh(name))
        rows = report.views[name].rows_out if report and name in report.views else 0
        epoch = str(self._engine.ledger.epoch)
        return self._listing(["view", "epoch", "rows_out"], [(name, epoch, str(rows))])

    def _set(self, settings: Any) -> None:
        if settings.given != self._engine.defined.settings.given:
            self._engine.applied_settings.change(settings)

    def _checkpoint(self, _statement: s.Checkpoint) -> Any:
        made = self._engine.work.checkpoints.now()
        return self._showing.checkpoints(made)

    def _restore(self, statement: s.Restore) -> Any:
        done = restore(self._engine, statement.checkpoint_id)
        row = (str(done.checkpoint_id), str(done.epoch), str(done.set_aside))
        return self._listing(["checkpoint_id", "epoch", "set_aside"], [row])

    def _explain(self, statement: s.Explain) -> Any:
        match statement.target:
            case str(name):
                return self._showing.explain_view(self._view(name))
            case s.CreateView() as target:
                if not target.or_replace:
                    self._is_there(target.name, if_not_exists=False)
                return self._showing.explain_new(self._view_definition(target))
            case s.Query() as target:
                return self._showing.explain_query(target)
            case _:
                return self._showing.explain_dag()


def _refuse_sign(name: str) -> None:
    """Refuse a new name that could not be told from one of ours."""
    own = any(sign in name for sign in _OWN_SIGNS) or name.lower().endswith(_OWN_ENDS)
    if own or name.lower() == SYSTEM:
        raise NotSupported(
            f'the name "{name}"',
            f"choose one without {' '.join(_OWN_SIGNS)} that does not end in"
            f" {', '.join(_OWN_ENDS)} and is not {SYSTEM}",
        )


def table_definition(statement: s.CreateTable) -> TableDefinition:
    """Return what CREATE TABLE or CREATE SOURCE defines; raise if its parts do not go together."""
    refuse_own_columns([column.name for column in statement.columns])
    connector, options = without_connector(dict(statement.options))
    is_source = statement.kind is s.RelationKind.SOURCE
    strange = for_connector(options) if is_source else options
    if connector is None and strange:
        raise NotSupported(f"{next(iter(strange))} without a connector", "leave it out")
    definition = TableDefinition(
        statement.name,
        tuple((f.name, f.type, f.nullable) for f in statement.schema.fields),
        is_source=is_source,
        connector=connector,
        options=options,
        sql=statement.text,
        primary_key=statement.primary_key,
        **_event_time(statement),
        **_rules(statement),
    )
    rules = (definition.lengths, definition.defaults, definition.generated, definition.checks)
    hint = "leave it to the views that read it: its rows come as they are"
    if connector is not None and any(rules):
        raise NotSupported("VARCHAR(n), DEFAULT, GENERATED or CHECK with a connector", hint)
    if connector is not None and not all(noted.isdigit() for _, noted in definition.chars):
        raise NotSupported("a text of a length inside of another type with a connector", hint)
    refuse_unfit_keys(definition)
    way_in = parse(options, pushed=connector is None)
    if definition.event_time is None and (way_in.alignment_group or way_in.idle_timeout_ms):
        raise NoWatermark(definition.name)
    if not way_in.keeps_all and (definition.primary_key or not is_source):
        hint = "declare a SOURCE without PRIMARY KEY: a row may replace one that is needed"
        raise NotSupported("retain = 'used' here", hint)
    if connector is not None and definition.primary_key and not definition.is_source:
        raise NotSupported("PRIMARY KEY of a table with a connector", "declare a SOURCE")
    return definition


def _rules(statement: s.CreateTable) -> dict[str, Any]:
    """Return what a statement declares of rows, and says of columns."""
    kinds = [
        (each.name, normalise_type(each.type_text, lengths=True)) for each in statement.columns
    ]
    plain = {name: text_length(kind) or ("", 0) for name, kind in kinds if has_lengths(kind)}
    lengths = {name: str(n) for name, (word, n) in plain.items() if word == "varchar"}
    # What is noted of CHAR(n) is n, and of a type that has such texts inside all of it.
    noted = {name: str(n or dict(kinds)[name]) for name, (_, n) in plain.items()}
    return {
        "lengths": tuple(lengths.items()),
        "chars": tuple(each for each in noted.items() if each[0] not in lengths),
        "defaults": tuple((c.name, c.default) for c in statement.columns if c.default),
        "generated": tuple((c.name, c.generated) for c in statement.columns if c.generated),
        "checks": tuple((each.name, each.condition) for each in statement.checks),
        "comments": tuple((c.name, c.comment) for c in statement.columns if c.comment),
        "comment": statement.about.comment,
        "properties": statement.about.properties,
    }


def view_definition(statement: s.CreateView, defaults: Callable[[str], str]) -> ViewDefinition:
    """Return what CREATE MATERIALIZED VIEW defines; `defaults` are those of its options."""
    chosen: dict[str, Any] = {**resolve(statement.options, defaults)}
    return ViewDefinition(
        statement.name,
        statement.query,
        sql=statement.text,
        emission=_emission(statement),
        defined_at=str(statement.location),
        comment=statement.about.comment,
        properties=statement.about.properties,
        **chosen,
    )


def _stays(hold: Hold, view: str) -> str:
    return hold.told(view) if view != hold.because else f"is {hold.reason.value}"


def _emission(statement: s.CreateView) -> Emission:
    emit = statement.emit
    every = 0
    if emit is not None and emit.interval_text is not None:
        every = micros(emit.interval_text)
        if every < 1000:
            raise NotSupported(f"EMIT PERIODICALLY INTERVAL '{emit.interval_text}'", "wait longer")
    lateness = None if statement.lateness is None else micros(statement.lateness)
    if lateness is not None and lateness < 0:
        raise NotSupported("a negative ALLOW LATENESS", "leave the clause out")
    found = Emission(
        Mode.UPDATE if emit is None else _MODES[emit.kind], every, lateness, statement.late_data_to
    )
    if found.late_to is not None and not found.is_bounded:
        hint = "add EMIT AFTER WATERMARK or ALLOW LATENESS: without them no row is late"
        raise NotSupported("LATE DATA TO alone", hint)
    return found


def _event_time(statement: s.CreateTable) -> dict[str, Any]:
    mark = statement.watermark
    if mark is None:
        return {}
    kind = next(field.type for field in statement.schema.fields if field.name == mark.column)
    if kind.upper() != "TIMESTAMP":
        raise NotSupported(f"a watermark over a {kind}", f"declare {mark.column} TIMESTAMP")
    return {"event_time": mark.column, "delay_us": delay_of(mark)}
