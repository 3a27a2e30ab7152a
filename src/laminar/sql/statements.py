"""Statements as data: what a user asked for, before anything is looked up or run.

What belongs to Spark (queries, conditions, expressions) is kept as the user wrote it. Two
statements are equal if they ask for the same thing; where they stand in a script does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from laminar.model.schema import Field, Schema
from laminar.sql.function_calls import Parameter
from laminar.sql.location import Location
from laminar.sql.time_travel import Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement: its own text, and where that starts in the script."""

    text: str = field(compare=False)
    location: Location = field(compare=False)


class RelationKind(StrEnum):
    """What a name may stand for; the value is how SQL says it."""

    TABLE = "TABLE"
    SOURCE = "SOURCE"
    VIEW = "MATERIALIZED VIEW"
    SINK = "SINK"


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A declared column. The type is in words that Spark knows: a bare VARCHAR is a STRING.

    A generated one is always the value of its expression; a default counts where none is given.
    """

    name: str
    type_text: str
    not_null: bool = False
    default: str | None = None
    generated: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that is false for no row of a table."""

    name: str
    condition: str


@dataclass(frozen=True, slots=True)
class About:
    """What a user says about a relation, which is kept and shown."""

    comment: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a source's time has come, as an expression over its column of event time."""

    column: str
    expression_text: str


class EmitKind(StrEnum):
    """When a view shows what it computed; the value is how SQL says it."""

    AFTER_WATERMARK = "AFTER WATERMARK"
    ON_WINDOW_CLOSE = "ON WINDOW CLOSE"
    FINAL = "FINAL"
    ON_UPDATE = "ON UPDATE"
    CHANGES = "CHANGES"
    PERIODICALLY = "PERIODICALLY"


@dataclass(frozen=True, slots=True)
class Emit:
    """An EMIT clause. Only PERIODICALLY has an interval, in Spark's string form: `10 second`."""

    kind: EmitKind
    interval_text: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE TABLE or CREATE SOURCE."""

    name: str
    columns: tuple[ColumnDef, ...]
    kind: RelationKind = RelationKind.TABLE
    primary_key: tuple[str, ...] = ()
    watermark: Watermark | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    if_not_exists: bool = False
    checks: tuple[Check, ...] = ()
    about: About = About()

    @property
    def schema(self) -> Schema:
        """The columns as the rest of the system knows them."""
        return Schema(tuple(Field(c.name, c.type_text, not c.not_null) for c in self.columns))


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE MATERIALIZED VIEW. `query` is without the clauses that follow it."""

    name: str
    query: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    or_replace: bool = False
    if_not_exists: bool = False
    emit: Emit | None = None
    lateness: str | None = None
    late_data_to: str | None = None
    about: About = About()
    query_location: Location = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class CreateSink(Statement):
    """CREATE SINK."""

    name: str
    source: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    """CREATE FUNCTION of an expression; `returns` is empty where the expression says the type."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str
    body: str
    comment: str = ""
    or_replace: bool = False
    if_not_exists: bool = False
    body_location: Location = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DropFunction(Statement):
    """DROP FUNCTION."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateSchema(Statement):
    """CREATE SCHEMA or DATABASE."""

    name: str
    comment: str = ""
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropSchema(Statement):
    """DROP SCHEMA or DATABASE; with what is in it if it may."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP of anything that has a name."""

    kind: RelationKind
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterView(Statement):
    """ALTER MATERIALIZED VIEW ... SET: options to change, the others stay."""

    name: str
    options: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class AlterSink(Statement):
    """ALTER SINK ... SET: options to change, the others stay."""

    name: str
    options: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class AlterSource(Statement):
    """ALTER SOURCE ... SET: options to change, the others stay."""

    name: str
    options: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Pause(Statement):
    """PAUSE MATERIALIZED VIEW, SOURCE, TABLE or SINK."""

    name: str
    is_view: bool = True
    is_sink: bool = False


@dataclass(frozen=True, slots=True)
class Resume(Statement):
    """RESUME MATERIALIZED VIEW, SOURCE, TABLE or SINK."""

    name: str
    is_view: bool = True
    is_sink: bool = False


@dataclass(frozen=True, slots=True)
class Refresh(Statement):
    """REFRESH MATERIALIZED VIEW."""

    name: str


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO; without columns, all of them in order. The query may be VALUES."""

    table: str
    columns: tuple[str, ...]
    query: str
    query_location: Location = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM; without a condition, every row."""

    table: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE; expressions see the row as it was before."""

    table: str
    assignments: tuple[tuple[str, str], ...]
    where: str | None = None


class MergeKind(StrEnum):
    """Which rows a clause of MERGE is about; the value is how SQL says it."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


class MergeAction(StrEnum):
    """What a clause of MERGE does with a row."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """WHEN ... [AND condition] THEN ...; `values` are columns of the target and expressions.

    One with a star takes every column of the target from the source's column of that name.
    """

    kind: MergeKind
    action: MergeAction
    condition: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    is_star: bool = False


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    """MERGE INTO. The source is text that can follow FROM: a name, or a query in brackets."""

    table: str
    alias: str | None
    source: str
    source_alias: str
    on: str
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """A query. Its text is for Spark, without AS OF EPOCH.

    It reads one epoch of everything, or, in `pasts`, each relation at an epoch of its own.
    """

    text: str = field(kw_only=True)
    as_of_epoch: int | None = None
    pasts: tuple[Past, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainDag:
    """What EXPLAIN DAG is about: all of it."""


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN, which touches no data. A target of plain text is the name of a view."""

    target: ExplainDag | str | CreateView | Query


class ShowKind(StrEnum):
    """What can be shown; the value is how SQL says it."""

    SOURCES = "SOURCES"
    TABLES = "TABLES"
    VIEWS = "MATERIALIZED VIEWS"
    SINKS = "SINKS"
    CHECKPOINTS = "CHECKPOINTS"
    DEPENDENCIES = "DEPENDENCIES"
    CREATE = "CREATE"
    FUNCTIONS = "FUNCTIONS"
    SCHEMAS = "SCHEMAS"
    CREATE_FUNCTION = "CREATE FUNCTION"
    CONNECTORS = "CONNECTORS"


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW; DEPENDENCIES and CREATE are about a name, lists of relations about one schema."""

    what: ShowKind
    name: str | None = None
    schema: str | None = None
    """Whose relations are listed; None for the current one."""


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE: the columns of a relation, or a function, a schema or a connector."""

    name: str
    is_function: bool = False
    is_schema: bool = False
    is_connector: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint(Statement):
    """CHECKPOINT: make a durable point now."""


@dataclass(frozen=True, slots=True)
class Restore(Statement):
    """RESTORE FROM CHECKPOINT."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """SET laminar.x = y."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """USE: the schema that names of one part are in."""

    schema: str


@dataclass(frozen=True, slots=True)
class ResetOption(Statement):
    """RESET laminar.x."""

    name: str
