"""Where rows go, as relations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from laminar.runtime.catalog.redaction import shown_options, shown_sql
from laminar.runtime.introspection.system.table import Rows, SystemTable, columns

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.timeline import Snapshot


def _sinks(engine: Engine, snapshot: Snapshot) -> Rows:
    known = engine.outputs.sinks.progress.statuses()
    for sink in engine.outputs.sinks.books.sinks():
        found = known.get(sink.name)
        if found is None:
            continue  # it was defined this moment
        lag = snapshot.manifest.epoch - found.epoch if found.epoch is not None else None
        yield (
            sink.name,
            sink.relation,
            sink.connector,
            shown_options(sink.options, sink.connector),
            sink.promise,
            found.epoch,
            lag,
            shown_sql(sink.sql, sink.connector) or None,
            found.state,
            found.reason,
            found.epoch,
            found.lag_epochs,
            found.attempts,
            _time(found.next_try_ms),
        )


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def _subscriptions(engine: Engine, snapshot: Snapshot) -> Rows:
    epoch = snapshot.manifest.epoch
    opened = engine.outputs.subscriptions.opened()
    held = {each.name for each in opened}
    for each in engine.outputs.subscriptions.named():
        lag = epoch - each.epoch
        yield (each.consumer, each.about["relation"], each.epoch, lag, each.consumer in held)
    known = {each.consumer for each in engine.outputs.subscriptions.named()}
    for other in opened:
        if other.name not in known:
            yield (other.name, other.relation, other.taken, epoch - other.taken, True)


TABLES = (
    SystemTable(
        "subscriptions",
        columns("name string, relation string, cursor bigint, lag bigint, is_open boolean"),
        _subscriptions,
    ),
    SystemTable(
        "sinks",
        columns(
            "name string, relation string, connector string, options map<string,string>,"
            " promise string, cursor bigint, lag bigint, definition string, state string,"
            " reason string, epoch bigint, lag_epochs bigint, attempts int, next_try timestamp"
        ),
        _sinks,
    ),
)
