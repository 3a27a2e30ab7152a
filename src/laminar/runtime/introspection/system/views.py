"""Views, what they did, and what they wait for, as relations."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from laminar.delta.program import Program, Recomputed, Strategy
from laminar.errors import EpochNotFound
from laminar.mv.retry import Failure
from laminar.runtime.catalog.consistency_groups import groups_of
from laminar.runtime.catalog.definitions import ViewDefinition
from laminar.runtime.introspection.explain import reason_of, storage_of
from laminar.runtime.introspection.system.table import Rows, SystemTable, columns
from laminar.runtime.scheduling.epoch_plan import Hold, Skip
from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.timeline import Snapshot


def _views(engine: Engine, snapshot: Snapshot) -> Rows:
    catalog, now = snapshot.catalog, snapshot.manifest.epoch
    progress = ViewProgress.from_state(snapshot.manifest.state)
    group_of = {name: each.number for each in groups_of(catalog) for name in each.members}
    states = states_of(engine)
    committed = {now: snapshot.manifest.committed_at}
    for cursor in progress.live():
        with suppress(EpochNotFound):
            committed[cursor] = engine.ledger.timeline.get(cursor).committed_at
    for name, program in catalog.programs.items():
        definition = catalog.definitions[name]
        options = definition if isinstance(definition, ViewDefinition) else ViewDefinition(name, "")
        epoch = progress.cursor(name, now)
        state, why = states[name]
        at = committed.get(epoch) or None
        yield (
            name,
            program.strategy.value,
            _reason(program),
            state,
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
            why,
            None if at is None else datetime.fromisoformat(at),
        )


def states_of(engine: Engine) -> dict[str, tuple[str, str | None]]:
    """Return of every view whether it runs, and if not, what the matter is.

    It is paused, suspended or failing by itself; scheduled, if it waits for its turn; held, if it
    waits for another one.
    """
    held = engine.scheduler.plan(engine.env.clock()).held
    failures = engine.scheduler.progress.failures
    return {
        name: _state(name, held.get(name), failures.get(name))
        for name in engine.defined.catalog.programs
    }


def _state(name: str, hold: Hold | None, failure: Failure | None) -> tuple[str, str | None]:
    if hold is None:
        return ("failing", failure.reason) if failure is not None else ("running", None)
    if hold.because != name:
        return "held", hold.told(name)
    return _OWN_STATES.get(hold.reason, "held"), hold.detail or hold.reason.value


_OWN_STATES = {
    Skip.PAUSED: "paused",
    Skip.SUSPENDED: "suspended",
    Skip.BACKING_OFF: "failing",
    Skip.LOCKED: "locked",
    Skip.NO_FUNCTION: "waiting",
    Skip.NOT_DUE: "scheduled",
}


def _reason(program: Program) -> str:
    """Return why a view has its strategy: the costliest part decides."""
    costly = next(each for each in program.relations if each.strategy is program.strategy)
    if program.strategy is Strategy.FULL and isinstance(costly, Recomputed):
        return f"{costly.reason.value}: {costly.detail}"
    return reason_of(costly)


def _refreshes(engine: Engine, _snapshot: Snapshot) -> Rows:
    for manifest in engine.ledger.timeline.kept():
        report = manifest.state.report
        if not report:
            continue
        commits = manifest.state.commits
        started = datetime.fromisoformat(report["started_at"])
        committed = datetime.fromisoformat(manifest.committed_at)
        for view in report.get("views", ()):
            name = view["name"]
            yield (
                manifest.epoch,
                name,
                view["strategy"],
                view["rows_out"],
                view["duration_ms"],
                started,
                committed,
                "committed",
                None,
                view.get("from_epoch"),
                commits.get(name),
            )
        for held in report.get("held", ()):
            name = held["name"]
            outcome = "failed" if held["is_failure"] else "held"
            why, cursor, group = held["reason"], held["cursor"], commits.get(name)
            yield (
                manifest.epoch, name, None, None, None, started, committed,
                outcome, why, cursor, group,
            )  # fmt: skip


TABLES = (
    SystemTable(
        "materialized_views",
        columns(
            "name string, strategy string, reason string, state string, epoch bigint, rows bigint,"
            " staleness bigint, refresh_policy string, schedule string,"
            " diamond_consistency string, diamond_schedule_policy string, group_id int,"
            " reads array<string>, storage string, definition string, defined_at string,"
            " state_reason string, as_of timestamp"
        ),
        _views,
    ),
    SystemTable(
        "refresh_history",
        columns(
            "epoch bigint, view string, strategy string, rows_out bigint, duration_ms double,"
            " started_at timestamp, committed_at timestamp, outcome string, reason string,"
            " from_epoch bigint, group_epoch bigint"
        ),
        _refreshes,
    ),
)
