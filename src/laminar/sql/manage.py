"""Statements about what exists: DROP, ALTER, PAUSE, SHOW, EXPLAIN, CHECKPOINT, SET and the like."""

from __future__ import annotations

from laminar.errors.database import FixedSparkSetting
from laminar.errors.sql import NotSupported
from laminar.sql.create import take_create
from laminar.sql.create_function import take_drop_function
from laminar.sql.cursor import Cursor
from laminar.sql.keywords import keywords
from laminar.sql.query import starts_query, take_query
from laminar.sql.schema_statements import take_drop_schema
from laminar.sql.statements import (
    AlterSink,
    AlterSource,
    AlterView,
    Checkpoint,
    CreateView,
    Describe,
    Drop,
    DropFunction,
    DropSchema,
    Explain,
    ExplainDag,
    Pause,
    Query,
    Refresh,
    RelationKind,
    ResetOption,
    Restore,
    Resume,
    SetOption,
    Show,
    ShowKind,
)
from laminar.sql.tokens import Kind
from laminar.sql.with_options import take_options, take_value

_A_VIEW = "the name of a view"
_OTHER_DESCRIBE = keywords("EXTENDED FORMATTED QUERY")
OF_A_SCHEMA = (ShowKind.SOURCES, ShowKind.TABLES, ShowKind.SINKS, ShowKind.VIEWS)
"""Lists of what is in one schema."""
_LISTS = (
    ShowKind.SOURCES,
    ShowKind.TABLES,
    ShowKind.SINKS,
    ShowKind.CHECKPOINTS,
    ShowKind.FUNCTIONS,
    ShowKind.SCHEMAS,
    ShowKind.CONNECTORS,
)


def take_drop(cursor: Cursor) -> Drop | DropFunction | DropSchema:
    """Take DROP kind [IF EXISTS] name [CASCADE]."""
    start = cursor.at
    cursor.expect("DROP")
    if cursor.looks_at("FUNCTION"):
        return take_drop_function(cursor, start)
    if cursor.peek().is_word("SCHEMA", "DATABASE"):
        return take_drop_schema(cursor, start)
    kind = _kind(cursor)
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(f"the name of a {kind.lower()}")
    cascade = cursor.accept("CASCADE")
    if not cursor.done():
        cursor.unexpected("CASCADE")
    return Drop(kind, name, if_exists, cascade, **cursor.origin(start))


def take_alter(cursor: Cursor) -> AlterView | AlterSink | AlterSource:
    """Take ALTER MATERIALIZED VIEW | SINK | SOURCE name SET (option = value, ...)."""
    start = cursor.at
    cursor.expect("ALTER")
    if cursor.peek().is_word("TABLE"):
        what = f"ALTER {cursor.peek().upper}"
        raise cursor.here(NotSupported(what, "drop it and create it anew"))
    altered: type[AlterView | AlterSink | AlterSource]
    if cursor.accept("SINK"):
        altered, named = AlterSink, "the name of a sink"
    elif cursor.accept("SOURCE"):
        altered, named = AlterSource, "the name of a source"
    else:
        cursor.expect("MATERIALIZED", "VIEW")
        altered, named = AlterView, _A_VIEW
    name = cursor.name(named)
    cursor.expect("SET")
    options = take_options(cursor)
    cursor.finish()
    return altered(name, options, **cursor.origin(start))


def take_pause(cursor: Cursor) -> Pause:
    """Take PAUSE MATERIALIZED VIEW | SOURCE | TABLE | SINK name."""
    start = cursor.at
    name, *kind = _stopped(cursor, "PAUSE")
    return Pause(name, *kind, **cursor.origin(start))


def take_resume(cursor: Cursor) -> Resume:
    """Take RESUME MATERIALIZED VIEW | SOURCE | TABLE | SINK name."""
    start = cursor.at
    name, *kind = _stopped(cursor, "RESUME")
    return Resume(name, *kind, **cursor.origin(start))


def take_refresh(cursor: Cursor) -> Refresh:
    """Take REFRESH MATERIALIZED VIEW name."""
    start = cursor.at
    return Refresh(_view_of(cursor, "REFRESH"), **cursor.origin(start))


def take_show(cursor: Cursor) -> Show:
    """Take SHOW of a list, of DEPENDENCIES FOR a name, or of CREATE for a name."""
    start = cursor.at
    cursor.expect("SHOW")
    what, name = _shown(cursor)
    schema = None
    if what in OF_A_SCHEMA and (cursor.accept("IN") or cursor.accept("FROM")):
        schema = cursor.name("the name of a schema")
    cursor.finish()
    return Show(what, name, schema, **cursor.origin(start))


def take_describe(cursor: Cursor) -> Describe:
    """Take DESCRIBE [kind] name."""
    start = cursor.at
    cursor.one_of("DESCRIBE", "DESC")
    # A relation may be called `function`; with a second name after it, it is one of Spark's forms.
    if cursor.peek().upper in _OTHER_DESCRIBE and cursor.peek(1).kind is not Kind.END:
        what = f"DESCRIBE {cursor.peek().upper}"
        raise cursor.here(NotSupported(what, "write DESCRIBE and the name of a relation"))
    is_schema = _comes_before_name(cursor, "SCHEMA", "DATABASE")
    is_function = not is_schema and _comes_before_name(cursor, "FUNCTION")
    is_connector = not (is_schema or is_function) and _comes_before_name(cursor, "CONNECTOR")
    if not (is_schema or is_function or is_connector):
        _optional_kind(cursor)
    name = cursor.name(f"the name of a {'connector' if is_connector else 'relation'}")
    cursor.finish()
    return Describe(name, is_function, is_schema, is_connector, **cursor.origin(start))


def take_explain(cursor: Cursor) -> Explain:
    """Take EXPLAIN of the DAG, of a view, of a view to be created, or of a query."""
    start = cursor.at
    cursor.expect("EXPLAIN")
    target = _explained(cursor)
    cursor.finish()
    return Explain(target, **cursor.origin(start))


def take_checkpoint(cursor: Cursor) -> Checkpoint:
    """Take CHECKPOINT."""
    start = cursor.at
    cursor.expect("CHECKPOINT")
    cursor.finish()
    return Checkpoint(**cursor.origin(start))


def take_restore(cursor: Cursor) -> Restore:
    """Take RESTORE FROM CHECKPOINT n."""
    start = cursor.at
    cursor.expect("RESTORE", "FROM", "CHECKPOINT")
    number = cursor.integer("the number of a checkpoint")
    cursor.finish()
    return Restore(number, **cursor.origin(start))


def take_set(cursor: Cursor) -> SetOption:
    """Take SET laminar.x = value."""
    start = cursor.at
    cursor.expect("SET")
    name = _setting(cursor)
    cursor.expect("=")
    value = take_value(cursor)
    cursor.finish()
    return SetOption(name, value, **cursor.origin(start))


def take_reset(cursor: Cursor) -> ResetOption:
    """Take RESET laminar.x."""
    start = cursor.at
    cursor.expect("RESET")
    name = _setting(cursor)
    cursor.finish()
    return ResetOption(name, **cursor.origin(start))


def _kind(cursor: Cursor) -> RelationKind:
    if cursor.looks_at("VIEW"):
        raise cursor.here(NotSupported("a plain VIEW", "write MATERIALIZED VIEW"))
    word = cursor.one_of("MATERIALIZED", "SOURCE", "TABLE", "SINK")
    if word == "MATERIALIZED":
        cursor.expect("VIEW")
        return RelationKind.VIEW
    return RelationKind(word)


def _optional_kind(cursor: Cursor) -> None:
    """Take the kind before a name, if one stands there; a relation may be called `sink`."""
    for kind in RelationKind:
        words = kind.value.split()
        follows = cursor.peek(len(words))
        if cursor.looks_at(*words) and follows.text and not follows.is_symbol("."):
            cursor.accept(*words)
            return


def _comes_before_name(cursor: Cursor, *words: str) -> bool:
    """Take FUNCTION, or another word, before a name; a relation may be called `function`."""
    follows = cursor.peek(1)
    is_before = bool(follows.text) and not follows.is_symbol(".")
    return is_before and any(cursor.accept(word) for word in words)


def _view_of(cursor: Cursor, verb: str) -> str:
    cursor.expect(verb, "MATERIALIZED", "VIEW")
    name = cursor.name(_A_VIEW)
    cursor.finish()
    return name


def _stopped(cursor: Cursor, verb: str) -> tuple[str, bool, bool]:
    """Take what is to stay or go on: its name, whether it is a view, whether it is a sink."""
    cursor.expect(verb)
    word = cursor.one_of("MATERIALIZED", "SOURCE", "TABLE", "SINK")
    is_view, is_sink = word == "MATERIALIZED", word == "SINK"
    if is_view:
        cursor.expect("VIEW")
    other = "the name of a sink" if is_sink else "the name of a source or table"
    name = cursor.name(_A_VIEW if is_view else other)
    cursor.finish()
    return name, is_view, is_sink


def _shown(cursor: Cursor) -> tuple[ShowKind, str | None]:
    if cursor.accept("MATERIALIZED"):
        cursor.expect("VIEWS")
        return ShowKind.VIEWS, None
    if cursor.accept("DEPENDENCIES"):
        cursor.expect("FOR")
        return ShowKind.DEPENDENCIES, cursor.name("the name of a relation")
    if cursor.accept("CREATE"):
        if _comes_before_name(cursor, "FUNCTION"):
            return ShowKind.CREATE_FUNCTION, cursor.name("the name of a function")
        _optional_kind(cursor)
        return ShowKind.CREATE, cursor.name("the name of a relation")
    if cursor.looks_at("VIEWS"):
        raise cursor.here(NotSupported("SHOW VIEWS", "write SHOW MATERIALIZED VIEWS"))
    if cursor.accept("DATABASES"):
        return ShowKind.SCHEMAS, None
    word = cursor.one_of(*(kind.value for kind in _LISTS), "MATERIALIZED", "DEPENDENCIES", "CREATE")
    return ShowKind(word), None


def _explained(cursor: Cursor) -> ExplainDag | str | CreateView | Query:
    if cursor.accept("DAG"):
        return ExplainDag()
    if cursor.accept("MATERIALIZED", "VIEW"):
        return cursor.name(_A_VIEW)
    if cursor.looks_at("CREATE"):
        token = cursor.peek()
        created = take_create(cursor)
        if isinstance(created, CreateView):
            return created
        raise cursor.here(NotSupported("EXPLAIN of anything but a view or a query"), token)
    if cursor.peek().is_word("EXTENDED", "CODEGEN", "COST", "FORMATTED", "ANALYZE", "LOGICAL"):
        raise cursor.here(NotSupported(f"EXPLAIN {cursor.peek().upper}", "write EXPLAIN alone"))
    if not starts_query(cursor):
        cursor.unexpected("DAG", "MATERIALIZED", "CREATE", "SELECT")
    return take_query(cursor)


def _setting(cursor: Cursor) -> str:
    token = cursor.peek()
    if cursor.looks_at("TIME", "ZONE"):
        raise cursor.here(FixedSparkSetting("spark.sql.session.timeZone"), token)
    name = cursor.name("the name of a setting")
    if name.lower().startswith("spark."):
        raise cursor.here(FixedSparkSetting(name), token)
    if not name.lower().startswith("laminar."):
        hint = (
            "settings are called laminar.something; Spark's are those of whoever creates a database"
        )
        raise cursor.here(NotSupported(f'the setting "{name}"', hint), token)
    return name
