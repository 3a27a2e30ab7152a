"""Where rows come from, as relations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from laminar.connectors.catalogue import listed
from laminar.model.event_time import END_OF_TIME
from laminar.model.row_counts import RowCounts
from laminar.runtime.catalog.definitions import TableDefinition, ViewDefinition
from laminar.runtime.catalog.redaction import shown_definition, shown_options
from laminar.runtime.epoch.late_rows import read_kept
from laminar.runtime.event_time.late_batch import LATE_ROWS
from laminar.runtime.ingest.source_health import SourceHealth
from laminar.runtime.introspection.system.table import Rows, SystemTable, columns
from laminar.store.source_notes import SourceNotes

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.timeline import Snapshot


def _sources(engine: Engine, snapshot: Snapshot) -> Rows:
    health = engine.work.inlets.health.all()
    if engine.env.read_only:
        notes = SourceNotes(engine.env.root).read()
        health |= {name: SourceHealth(**each) for name, each in notes.items()}
    for name, each in snapshot.catalog.definitions.items():
        if not isinstance(each, TableDefinition):
            continue
        offset = snapshot.manifest.offsets.get(name)
        start = offset if isinstance(offset, int) else 0
        waits = (
            None
            if each.connector
            else sum(b.rows for b in engine.ledger.pending.after(name, start))
        )
        yield (
            name,
            "source" if each.is_source else "table",
            each.connector,
            shown_options(each.options, each.connector),
            [column for column, _, _ in each.columns],
            list(each.primary_key),
            None if offset is None else json.dumps(offset),
            waits,
            shown_definition(each) or None,
            *_counts(snapshot.manifest.state.counts.get(name, RowCounts())),
            *_told(health.get(name) or SourceHealth(_pushed(name, snapshot))),
        )


def _pushed(name: str, snapshot: Snapshot) -> str:
    return "gated" if name in snapshot.manifest.state.gated else "running"


def _told(of: SourceHealth) -> tuple[Any, ...]:
    due = None if of.next_try_ms is None else of.next_try_ms * 1000
    return of.state, of.reason, of.attempts, due


def _counts(of: RowCounts) -> tuple[int, ...]:
    return of.read, of.stored, of.dropped, of.refused, of.late


def _watermarks(engine: Engine, _snapshot: Snapshot) -> Rows:
    for each in engine.time.rows():
        kind = "Source" if each.is_source else "MaterializedView"
        # The end of time is no time that a calendar has.
        at = None if each.watermark_us >= END_OF_TIME else each.watermark_us
        yield each.relation, kind, each.event_time, at


def _late_rows(engine: Engine, snapshot: Snapshot) -> Rows:
    kept = engine.ledger.manifest.traces.get(LATE_ROWS)
    for row in read_kept(
        engine.env.root, kept, engine.defined.time_settings.late_rows_kept
    ).to_pylist():
        definition = snapshot.catalog.definitions.get(row["relation"])
        sent_to = definition.emission.late_to if isinstance(definition, ViewDefinition) else None
        yield (
            row["relation"],
            row["reason"],
            row["epoch"],
            row["event_time"],
            row["row"],
            sent_to,
        )


def _connectors(_engine: Engine, _snapshot: Snapshot) -> Rows:
    for each in listed():
        yield each.name, each.kind, each.about, [option.name for option in each.options]


TABLES = (
    SystemTable(
        "connectors",
        columns("name string, kind string, about string, options array<string>"),
        _connectors,
    ),
    SystemTable(
        "sources",
        columns(
            "name string, kind string, connector string, options map<string,string>,"
            " columns array<string>, primary_key array<string>, position string,"
            " pending_rows bigint, definition string,"
            " rows_read bigint, rows_stored bigint, rows_dropped bigint, rows_refused bigint,"
            " rows_late bigint,"
            " state string, reason string, attempts bigint, next_try timestamp"
        ),
        _sources,
    ),
    SystemTable(
        "watermarks",
        columns("name string, node_type string, event_time string, watermark timestamp"),
        _watermarks,
    ),
    SystemTable(
        "late_rows",
        columns(
            "relation string, reason string, epoch bigint, event_time timestamp, row string,"
            " sent_to string"
        ),
        _late_rows,
    ),
)
