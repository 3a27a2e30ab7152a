"""Views, what they did, and what they wait for, as relations."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from laminar.delta.program import Program, Recomputed, Strategy
from laminar.runtime.definitions import ViewDefinition
from laminar.runtime.explain import reason_of, storage_of
from laminar.runtime.system.standing import epoch_of
from laminar.runtime.system.table import Rows, SystemTable, columns
from laminar.runtime.system.topology import groups

if TYPE_CHECKING:
    from laminar.runtime.engine import Engine
    from laminar.runtime.visible import Visible


def _views(engine: Engine, visible: Visible) -> Rows:
    catalog, now = visible.catalog, visible.manifest.epoch
    group_of = {
        catalog.dag.nodes[node].name: group_id
        for group_id, group in groups(catalog)
        for node in group.members
    }
    for name, program in catalog.programs.items():
        definition = catalog.definitions[name]
        options = definition if isinstance(definition, ViewDefinition) else ViewDefinition(name, "")
        epoch = epoch_of(name, engine, visible)
        yield (
            name,
            program.strategy.value,
            _reason(program),
            state_of(name, engine),
            epoch,
            None,  # counted by Spark when a query asks for it
            now - epoch,
            options.refresh_policy,
            options.schedule,
            options.diamond_consistency,
            options.diamond_schedule_policy,
            group_of.get(name),
            list(program.sources()),
            storage_of(program.output, catalog.relations),
            definition.sql or options.query or None,
            options.defined_at or None,
        )


def state_of(name: str, engine: Engine) -> str:
    """Return whether a view runs, was paused, or is held because something it reads was."""
    if name in engine.holding.paused:
        return "paused"
    return "held" if name in engine.holding.since else "running"


def _reason(program: Program) -> str:
    """Return why a view has its strategy: the costliest part decides."""
    costly = next(each for each in program.relations if each.strategy is program.strategy)
    if program.strategy is Strategy.FULL and isinstance(costly, Recomputed):
        return f"{costly.reason.value}: {costly.detail}"
    return reason_of(costly)


def _refreshes(engine: Engine, _visible: Visible) -> Rows:
    for manifest in engine.history():
        report = manifest.state.get("report") or {}
        for view in report.get("views", ()):
            yield (
                manifest.epoch,
                view["name"],
                view["strategy"],
                view["rows_out"],
                view["duration_ms"],
                datetime.fromisoformat(report["started_at"]),
                datetime.fromisoformat(manifest.committed_at),
            )


TABLES = (
    SystemTable(
        "materialized_views",
        columns(
            "name string, strategy string, reason string, state string, epoch bigint, rows bigint,"
            " staleness bigint, refresh_policy string, schedule string,"
            " diamond_consistency string, diamond_schedule_policy string, group_id int,"
            " reads array<string>, storage string, definition string, defined_at string"
        ),
        _views,
    ),
    SystemTable(
        "refresh_history",
        columns(
            "epoch bigint, view string, strategy string, rows_out bigint, duration_ms double,"
            " started_at timestamp, committed_at timestamp"
        ),
        _refreshes,
    ),
)
