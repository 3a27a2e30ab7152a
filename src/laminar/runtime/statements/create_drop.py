"""Schemas, tables, views and operators: how they come into a database and leave it.

A connector is a user's code: it is built, asked and closed outside of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from laminar.connectors.source import Source
from laminar.connectors.source_registry import alterable_options, with_absolute_paths
from laminar.delta.program import Program
from laminar.errors import (
    HasDependents,
    NotSupported,
    OptionIsFixed,
    SchemaExists,
    SchemaNotEmpty,
    TableRedefined,
)
from laminar.runtime.catalog.column_rules import refuse_unfit_rules, refuse_unfit_types
from laminar.runtime.catalog.definitions import (
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
)
from laminar.runtime.catalog.python_objects import Spread, applied
from laminar.runtime.catalog.source_options import (
    FIXED,
    OWN,
    changed,
    for_connector,
    parse,
    refuse_in_part,
)
from laminar.runtime.engine.call_all import call_all
from laminar.runtime.event_time.late_batch import LATE_ROWS
from laminar.runtime.ingest.connector_building import build_source, shut
from laminar.runtime.ingest.continuity import checked_offset
from laminar.runtime.relations.trace_versions import versions_of
from laminar.sql.rewrite_options import with_source_options
from laminar.sql.schemas import CATALOG, DEFAULT, last_of, schema_of
from laminar.sql.system import SYSTEM

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog
    from laminar.runtime.engine.engine import Engine


def create_table(engine: Engine, definition: TableDefinition, source: Source | None = None) -> None:
    """Define a table or source; it is empty.

    Args:
        engine: where.
        definition: what it says of itself.
        source: its connector, if that is an object of Python code.
    """
    name = definition.name
    engine.defined.catalog.refuse_duplicate(name)
    engine.ledger.turn.refuse_inside(f"CREATE {name}")
    refuse_unfit_types(definition, engine.defined.catalog.typer)
    refuse_unfit_rules(definition, engine.defined.catalog.typer)
    options = absolute(definition.connector, definition.options)
    if options != definition.options:
        sql = with_source_options(definition.sql, options) if definition.sql else ""
        definition = replace(definition, options=options, sql=sql)
    # May take its time: no turn yet.
    made = build_source(definition, engine.defined.call_timeout_ms) if source is None else None
    try:
        with engine.changing(f"CREATE {name}"):
            engine.defined.catalog.refuse_new(name)
            _let_in(engine, definition, source or made)
    except Exception:
        if made is not None:
            shut(name, made)
        raise


def _let_in(engine: Engine, definition: TableDefinition, source: Source | None) -> None:
    """Commit a table, with its connector if it has one."""
    definition = replace(definition, born=engine.ledger.next_revision)
    try:
        if source is not None:
            refuse_in_part(definition, source)
            engine.defined.sources[definition.name] = source
        engine.defined.catalog.add_table(definition)
        engine.time.watermarks.add(definition)
        engine.work.materialization.plan()
        engine.ledger.recommit()
    except BaseException:
        engine.defined.sources.pop(definition.name, None)
        raise


def alter_source(engine: Engine, name: str, given: Mapping[str, str]) -> None:
    """Set options of a source; it goes on from where it is committed.

    All is tried before anything changes: a connector is built with the new options, and asked from
    the committed offset on.

    Raises:
        OptionIsFixed: what was read so far would mean something else.
    """
    name = engine.defined.catalog.resolve(name)
    before = engine.defined.catalog.definitions[name]
    if not isinstance(before, TableDefinition) or not before.is_source:
        raise NotSupported(f'options of "{name}", which is no source', "name a source")
    engine.ledger.turn.refuse_inside(f"ALTER SOURCE {name}")
    strange = for_connector(given)
    _refuse_fixed(before, given, strange)
    options = absolute(before.connector, changed(before.options, given))
    parse(options, pushed=before.connector is None)
    sql = with_source_options(before.sql, options) if before.sql else ""
    after = replace(before, options=options, sql=sql)
    made = _tried(engine, after) if strange else None
    old: list[Callable[[], object]] = []
    try:
        source = made or engine.defined.sources.get(name)
        if source is not None:
            refuse_in_part(after, source)
        with engine.changing(f"ALTER SOURCE {name}"):
            if engine.defined.catalog.definitions.get(name) != before:
                raise TableRedefined(name)
            engine.defined.catalog.definitions[name] = after
            engine.ledger.recommit()
            old += _replaced(engine, name, made)
            made = None
    finally:
        if made is not None:
            engine.work.inlets.threads.close(made)
    call_all(old)


def _refuse_fixed(
    definition: TableDefinition, given: Mapping[str, str], strange: Mapping[str, str]
) -> None:
    free = alterable_options(definition.connector or "")
    if definition.connector is None and strange:
        raise NotSupported(f"{next(iter(strange))} without a connector", "leave it out")
    for option in given:
        if option.lower() in FIXED or (option in strange and option not in free):
            raise OptionIsFixed(definition.name, option, sorted({*free, *(OWN - FIXED)}))


def _tried(engine: Engine, definition: TableDefinition) -> Source:
    """Build a connector, and let it say whether it can go on from where its source is."""
    made = build_source(definition, engine.defined.call_timeout_ms)
    if made is None:
        raise NotSupported("options of an object of Python code", "hand in another one with run")
    inlets, name = engine.work.inlets, definition.name
    start = engine.ledger.manifest.offsets.get(name)
    try:
        ask = partial(made.latest_offset, start)
        checked_offset(name, start, inlets.threads.of(definition, made).call("latest_offset", ask))
    except BaseException:
        inlets.threads.close(made)
        raise
    return made


def _replaced(engine: Engine, name: str, made: Source | None) -> list[Callable[[], object]]:
    """Let a source go on with other options, and maybe another connector; return what closes."""
    inlets, sources = engine.work.inlets, engine.defined.sources
    way, was = inlets.ways.forget(name), sources.get(name)  # opened again with the options of now
    ends: list[Callable[[], object]] = [] if way is None else [way]
    if made is not None:
        sources[name] = made
        inlets.away.forget(name)
        if was is not None:
            ends.append(partial(inlets.threads.close, was))
    return ends


def absolute(connector: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a source with its paths as they are from everywhere."""
    return dict(options) if connector is None else with_absolute_paths(connector, options)


def create_view(engine: Engine, definition: ViewDefinition) -> None:
    """Define a view and fill it from what its inputs hold now, at the current epoch."""
    late_to = definition.emission.late_to
    with engine.changing(f"CREATE {definition.name}"):
        engine.defined.catalog.refuse_new(definition.name)
        if late_to is not None:
            engine.defined.catalog.refuse_new(late_to)
        definition = replace(definition, born=engine.ledger.next_revision)
        program = engine.defined.catalog.compile(definition)
        if late_to is not None and program.late is None:
            raise NotSupported("LATE DATA TO here", "read one relation with event time")
        engine.defined.catalog.add_view(definition, program)
        names = [definition.name]
        if late_to is not None:
            sink = LateDefinition(late_to, definition.name)
            engine.defined.catalog.add_view(sink, engine.defined.catalog.late_program(sink))
            names.append(late_to)  # empty, and at the epoch that the view begins with
        engine.work.materialization.fill_and_commit(names, engine.ledger.manifest.traces)


def create_operator(
    engine: Engine, definition: OperatorDefinition, operator: Any, spread: Spread = ()
) -> None:
    """Define a view that a Python operator maintains, and fill it."""
    with engine.changing(f"CREATE {definition.name}"):
        engine.defined.catalog.refuse_new(definition.name)
        definition = replace(definition, born=engine.ledger.next_revision)
        program = Program(definition.name, (applied(definition, operator, spread),))
        engine.defined.operators[definition.name] = operator
        engine.defined.catalog.add_view(definition, program)
        try:
            engine.work.materialization.fill_and_commit(
                (definition.name,), engine.ledger.manifest.traces
            )
        except Exception:
            del engine.defined.operators[definition.name]
            raise


def drop(engine: Engine, name: str, *, cascade: bool = False) -> tuple[str, ...]:
    """Drop a relation and, if asked, all that reads it."""
    with engine.changing(f"DROP {name}"):
        dependents = engine.defined.catalog.registry.all_dependents(name)
        sinks = engine.outputs.sinks.books.of((*dependents, name))
        readers = [each for each in dependents if not _is_late_of(engine, each, name)]
        if (readers or sinks) and not cascade:
            raise HasDependents(name, (*readers, *sinks))
        dropped = (*reversed(dependents), name)
        ends = _part_from(engine, dropped, sinks)
    call_all([*ends, engine.outputs.sinks.waits.close_retired])
    return dropped


def _part_from(
    engine: Engine, dropped: tuple[str, ...], sinks: Sequence[str]
) -> list[Callable[[], object]]:
    """Commit that relations and sinks are gone; return what closes their connectors."""
    with engine.outputs.sinks.removing(sinks):
        _commit_without(engine, dropped)
    ends = engine.leave(dropped)
    _forget_log(engine, dropped)
    engine.ledger.pending.keep_only(engine.defined.tables())
    return ends


def create_schema(engine: Engine, name: str, comment: str) -> None:
    """Commit that there is a schema, in which nothing is."""
    with engine.changing(f"CREATE SCHEMA {name}"):
        catalog = engine.defined.catalog
        if is_schema(catalog, name) or any(_is_in(name, each) for each in catalog.definitions):
            raise SchemaExists(name)
        catalog.schemas = catalog.schemas.with_one(name, comment)
        engine.ledger.recommit()


def is_schema(catalog: Catalog, name: str) -> bool:
    """Whether a schema of that name may not be created any more."""
    taken = (CATALOG, DEFAULT, SYSTEM, *catalog.schemas.names)
    return name.lower() in {each.lower() for each in taken}


def drop_schema(engine: Engine, name: str, *, cascade: bool) -> None:
    """Drop a schema and, if asked, all that is in it, with what reads that; in one commit."""
    with engine.changing(f"DROP SCHEMA {name}"):
        catalog = engine.defined.catalog
        own = [each for each in catalog.definitions if _is_in(name, each)]
        all_sinks = [each.name for each in engine.outputs.sinks.books.sinks()]
        own_sinks = [each for each in all_sinks if _is_in(name, each)]
        if (own or own_sinks) and not cascade:
            raise SchemaNotEmpty(name, map(last_of, (*own, *own_sinks)))
        gone = {*own, *(each for one in own for each in catalog.registry.all_dependents(one))}
        dropped = tuple(each for each in reversed(list(catalog.in_order())) if each in gone)
        read = {*engine.outputs.sinks.books.of(dropped), *own_sinks}
        catalog.schemas = catalog.schemas.without(name)
        ends = _part_from(engine, dropped, [each for each in all_sinks if each in read])
    call_all([*ends, engine.outputs.sinks.waits.close_retired])


def _is_in(schema: str, identity: str) -> bool:
    return "." in identity and schema_of(identity).lower() == schema.lower()


def _commit_without(engine: Engine, dropped: tuple[str, ...]) -> None:
    """Commit that relations are gone, with their rows."""
    for each in dropped:
        engine.defined.catalog.remove(each)
    with (
        engine.time.forgetting(dropped),
        engine.scheduler.with_progress(engine.scheduler.known()),
        _parting(engine.defined.operators, dropped),
    ):
        _commit_rest(engine, dropped)


@contextmanager
def _parting(operators: dict[str, Any], names: Iterable[str]) -> Iterator[None]:
    """Part from Python operators, if the commit inside succeeds."""
    gone = {name: operators.pop(name) for name in names if name in operators}
    try:
        yield
    except BaseException:
        operators.update(gone)
        raise


def _commit_rest(engine: Engine, dropped: tuple[str, ...]) -> None:
    engine.work.materialization.plan()
    kept = versions_of(engine.defined.catalog.relations, engine.ledger.manifest.traces)
    traces = {
        key: value
        for key, value in engine.ledger.manifest.traces.items()
        if key in kept or key == LATE_ROWS
    }
    offsets = {k: v for k, v in engine.ledger.manifest.offsets.items() if k not in dropped}
    engine.ledger.commit(engine.ledger.epoch, traces, offsets)


def _forget_log(engine: Engine, dropped: tuple[str, ...]) -> None:
    """Forget ranges of tables that are gone: none may be read from another one of its name."""
    logged = engine.ledger.wal.open_after(engine.ledger.epoch)
    engine.ledger.wal.withdraw(engine.ledger.epoch + 1)
    for epoch in (each for each in logged if engine.ledger.in_flight.holds(each.epoch)):
        left = [each for each in epoch.ranges if each.table not in dropped]
        engine.ledger.wal.begin(epoch.epoch, left, epoch.now_ms, epoch.said, epoch.skipped)
    engine.work.runner.forget_log(engine.ledger.epoch)


def _is_late_of(engine: Engine, name: str, view: str) -> bool:
    """Whether a relation only takes a view's late rows, and goes with it."""
    found = engine.defined.catalog.definitions[name]
    return isinstance(found, LateDefinition) and found.view == view
