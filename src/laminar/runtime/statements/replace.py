"""Giving a view another definition: what depends on it is checked, rebuilt, committed at once.

Until the commit, readers see the old definitions over the old rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laminar.errors import (
    DependentRefused,
    LaminarError,
    MvCycleDetected,
    NotSupported,
    RelationExists,
)
from laminar.runtime.catalog.definitions import LateDefinition, TableDefinition, ViewDefinition
from laminar.runtime.statements.rebuild import rebuild, without
from laminar.sql import relations_of
from laminar.sql.equality import same_query
from laminar.sql.rewrite_options import with_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laminar.runtime.catalog.catalog import Catalog
    from laminar.runtime.engine.engine import Engine


def replace_view(engine: Engine, definition: ViewDefinition) -> bool:
    """Replace a view and rebuild its dependents; say whether anything had to be done."""
    # In the turn from the start: what reads the view may change until then.
    with engine.ledger.turn(f"CREATE OR REPLACE {definition.name}"):
        return _replace(engine, definition)


def _replace(engine: Engine, definition: ViewDefinition) -> bool:
    old = _view(engine, definition.name)
    definition = replace(definition, name=old.name, born=old.born)
    if _same(old, definition):
        return False
    if any(name.lower() == old.name.lower() for name in relations_of(definition.query)):
        raise MvCycleDetected([old.name, old.name])
    if old.emission.late_to != definition.emission.late_to:
        hint = "drop the view, then create it"
        raise NotSupported(f'replacing where late rows of "{old.name}" go', hint)
    registry = engine.defined.catalog.registry
    affected = (old.name, *registry.all_dependents(old.name))
    sinks = engine.outputs.sinks.books.of(affected)
    if sinks:
        hint = f"drop the sink {sinks[0]} first, and create it again"
        raise NotSupported(f'replacing "{old.name}", whose changes a sink publishes', hint)
    with engine.changing(f"CREATE OR REPLACE {old.name}", *affected):
        traces = without(engine.ledger.manifest.traces, engine.defined.catalog.programs, affected)
        engine.defined.catalog.replace_view(definition, engine.defined.catalog.compile(definition))
        for name in affected[1:]:
            _recompile(engine.defined.catalog, old.name, name)
        traces = without(traces, engine.defined.catalog.programs, affected)
        engine.work.materialization.fill_and_commit(affected, traces)
    return True


def rebuild_callers(engine: Engine, function: str, callers: tuple[str, ...]) -> None:
    """Build views anew that call a function which means something else now, and their readers.

    Whoever calls this changes the definitions, and has changed the function.
    """
    catalog = engine.defined.catalog
    registry = catalog.registry
    wanted = {*callers, *(each for name in callers for each in registry.all_dependents(name))}
    affected = [name for name in registry.topo_order() if name in wanted]
    sinks = engine.outputs.sinks.books.of(affected)
    if sinks:
        hint = f"drop the sink {sinks[0]} first, and create it again"
        raise NotSupported(f'replacing "{function}", whose changes a sink publishes', hint)
    traces = without(engine.ledger.manifest.traces, catalog.programs, affected)
    for name in affected:
        _recompile(catalog, function, name)
    traces = without(traces, catalog.programs, affected)
    engine.work.materialization.fill_and_commit(affected, traces)


def alter_view(engine: Engine, name: str, options: Mapping[str, Any]) -> None:
    """Change options of a view; another refresh policy builds it anew.

    Its rows stay the same, so what depends on it stays as it is.
    """
    with engine.changing(f"ALTER {name}", name):
        old = _view(engine, name)
        new = replace(old, **options)
        if new == old:
            return
        new = replace(new, sql=with_options(old.sql, options) if old.sql else "")
        if new.refresh_policy == old.refresh_policy:
            engine.defined.catalog.replace_view(new, engine.defined.catalog.programs[old.name])
            engine.ledger.recommit()
            return
    rebuild(engine, old, new)


def _view(engine: Engine, name: str) -> ViewDefinition:
    found = engine.defined.catalog.definitions[engine.defined.catalog.resolve(name)]
    if isinstance(found, TableDefinition):
        raise RelationExists(found.name)
    if not isinstance(found, ViewDefinition):
        raise NotSupported(f'changing "{name}", which a Python operator keeps', "change the DAG")
    return found


def _same(old: ViewDefinition, new: ViewDefinition) -> bool:
    alike = replace(new, query=old.query, sql=old.sql, defined_at=old.defined_at)
    return same_query(old.query, new.query) and alike == old


def _recompile(catalog: Catalog, replaced: str, name: str) -> None:
    definition = catalog.definitions[name]
    if isinstance(definition, LateDefinition):
        catalog.replace_view(definition, catalog.late_program(definition))
        return
    if not isinstance(definition, ViewDefinition):
        raise DependentRefused(replaced, name, "a Python operator keeps it, whose state stays")
    try:
        definition = catalog.expanded(definition)
        catalog.replace_view(definition, catalog.compile(definition))
    except MvCycleDetected:
        raise
    except LaminarError as error:
        reason = "; ".join(part for part in (error.message, error.detail) if part)
        raise DependentRefused(replaced, name, reason) from error
