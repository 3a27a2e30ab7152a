"""Functions that users bring: how they come into a database, are replaced, and leave it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laminar.errors import (
    FunctionExists,
    FunctionInUse,
    InvalidFunction,
    NonDeterministic,
    NotSupported,
    ReadOnlyDatabase,
)
from laminar.model.quoting import backquoted
from laminar.runtime.catalog.function_definitions import FunctionDefinition
from laminar.runtime.spark.error_translation import SPARK_FAILS, explain_refusal, pointed
from laminar.runtime.spark.session_functions import OWN_FUNCTIONS, python_function
from laminar.runtime.statements.create_drop import drop
from laminar.runtime.statements.replace import rebuild_callers
from laminar.sql import forbidden_functions, unfinished_times
from laminar.sql.function_calls import called, with_values
from laminar.sql.keywords import keywords
from laminar.sql.nested_queries import holds_query

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog
    from laminar.runtime.engine.engine import Engine
    from laminar.sql.statements import CreateFunction, DropFunction

_SYNTAX = keywords(
    "CAST TRY_CAST EXTRACT TRIM POSITION OVERLAY CUMULATE CUMULATE_START CUMULATE_END SESSION"
    " SESSION_START SESSION_END TABLE_CHANGES TABLE VALUES IN EXISTS NOT AND OR CASE IDENTIFIER"
    " TIMESTAMPADD TIMESTAMPDIFF DATEADD DATEDIFF"
)
"""What is called like a function, and is none that Spark lists."""


def create_function(engine: Engine, statement: CreateFunction) -> None:
    """Define a function of SQL, or give it another body; views that call it are rebuilt."""
    functions = engine.defined.catalog.functions
    known = functions.get(statement.name)
    if known is not None and statement.if_not_exists:
        return
    if known is not None and not statement.or_replace:
        raise FunctionExists(statement.name)
    made = FunctionDefinition(
        statement.name if known is None else known.name,
        returns=statement.returns,
        parameters=statement.parameters,
        body=statement.body,
        sql=statement.text,
        comment=statement.comment,
    )
    with engine.changing(f"CREATE FUNCTION {made.name}"):
        if known is None:
            _refuse_built_in(engine.defined.catalog, made.name)
        made = _checked(engine.defined.catalog, made)
        _put(engine, known, made)


def _put(engine: Engine, known: FunctionDefinition | None, made: FunctionDefinition) -> None:
    """Commit a function, with all that calls it."""
    catalog = engine.defined.catalog
    catalog.functions = catalog.functions.with_one(made)
    callers = () if known is None or _is_same(known, made) else catalog.callers(made.name)
    if callers:
        rebuild_callers(engine, made.name, callers)
    else:
        engine.ledger.recommit()


def _is_same(one: FunctionDefinition, other: FunctionDefinition) -> bool:
    return replace(one, sql="", comment="") == replace(other, sql="", comment="")


def _refuse_built_in(catalog: Catalog, name: str) -> None:
    known = catalog.typer.built_in()
    if name.upper() in _SYNTAX or name.lower() in {*known, *OWN_FUNCTIONS}:
        raise FunctionExists(name, is_built_in=True)
    if name.startswith("__") or "." in name or "`" in name:
        raise NotSupported(f'the name "{name}"', "choose one of letters, digits and underscores")


def _checked(catalog: Catalog, made: FunctionDefinition) -> FunctionDefinition:
    """Let Spark check a function; return it with the type that its body has."""
    _refuse_body(made)
    catalog.functions.refuse_circle(made)
    functions = catalog.functions.with_one(made)
    functions = functions.without(functions.users(made.name))  # its type may be for its body to say
    try:
        catalog.typer.let_call(*functions.told())
        given = ", ".join(f"CAST(NULL AS {each.type_text})" for each in made.parameters)
        kind = catalog.typer.of_query(f"SELECT {backquoted(made.name)}({given})")[0][1]
        made = replace(made, returns=made.returns or kind)
        _try_written_out(catalog, made)
    except SPARK_FAILS as error:
        found = explain_refusal(error, {}, catalog.typer.functions)
        raise pointed(found, error, made.sql, "") from None
    finally:
        catalog.typer.let_call(*catalog.functions.told())
    return made


def _refuse_body(made: FunctionDefinition) -> None:
    texts = (made.body, *(each.default or "" for each in made.parameters))
    for text in texts:
        for function, _ in forbidden_functions(text):
            raise NonDeterministic(function, made.name).at(made.sql, made.sql.find(text))
        for time, _, _ in unfinished_times(text):
            why = f"'{time}' may stand for another time tomorrow"
            raise InvalidFunction(made.name, why, "write the whole time")
        if holds_query(text):
            hint = "give it what it needs as an argument"
            raise InvalidFunction(made.name, "a subquery stands in it", hint)
    if called(made.body, ["arrays_zip"]):
        why = "arrays_zip calls its fields as the columns are called, and arguments have no names"
        raise InvalidFunction(made.name, why, "zip the arrays in the query")


def _try_written_out(catalog: Catalog, made: FunctionDefinition) -> None:
    """Let Spark check the body over columns in the place of parameters."""
    own = catalog.functions.with_one(made).sql_function(made)
    columns = {each.name.casefold(): f"`__p{at}`" for at, each in enumerate(made.parameters)}
    body = with_values(own, columns)
    given = [
        f"CAST(NULL AS {each.type_text}) AS `__p{at}`" for at, each in enumerate(made.parameters)
    ]
    catalog.typer.of_query(
        f"SELECT CAST({body} AS {made.returns}) FROM (SELECT {', '.join(given) or '1'})"
    )


def drop_function(engine: Engine, statement: DropFunction) -> None:
    """Drop a function and, if asked, all that calls it."""
    functions = engine.defined.catalog.functions
    if statement.if_exists and functions.get(statement.name) is None:
        return
    name = functions.require(statement.name).name
    with engine.ledger.turn(f"DROP FUNCTION {name}"):
        callers = engine.defined.catalog.callers(name)
        users = functions.users(name)
        if (callers or users) and not statement.cascade:
            raise FunctionInUse(name, (*callers, *users))
        for view in callers:
            if engine.defined.catalog.exists(view):
                drop(engine, view, cascade=True)
        with engine.changing(f"DROP FUNCTION {name}"):
            catalog = engine.defined.catalog
            catalog.functions = catalog.functions.without((name, *users))
            engine.ledger.recommit()
    for each in (name, *users):
        engine.env.functions.forget(each)


def register_function(
    engine: Engine, name: str, given: Any, returns: Any, *, or_replace: bool = False
) -> None:
    """Make Python code known under a name; the name and its type last, the code does not."""
    language, kind, type_json, made = python_function(name, given, returns)
    with engine.changing(f"registering {name}"):
        catalog = engine.defined.catalog
        known = catalog.functions.get(name)
        if known is None:
            _refuse_built_in(catalog, name)
        elif known.is_sql and not or_replace:
            raise FunctionExists(name)
        definition = FunctionDefinition(
            name if known is None else known.name, language, kind, type_json=type_json
        )
        before = engine.env.functions.given(definition.name)
        if known is not None and not known.is_sql:
            definition = replace(definition, version=known.version)
            is_other = definition != known or before not in (None, given)
            if is_other and not or_replace:
                raise _another(definition, known)
            definition = replace(definition, version=known.version + is_other)
        if known == definition:
            engine.env.functions.attach(definition.name, given, made)
            return
        if engine.env.read_only:
            raise ReadOnlyDatabase("register_function", str(engine.env.root))
        with engine.env.functions.attaching(definition.name, given, made):
            _put(engine, known, definition)


def _another(new: FunctionDefinition, old: FunctionDefinition) -> InvalidFunction:
    why = "another function of that name is registered"
    if (new.returns, new.language) != (old.returns, old.language):
        why = f"it was a {old.language} function that returns {old.returns}"
    hint = "give or_replace=True: views that call it are built anew"
    return InvalidFunction(new.name, why, hint)
