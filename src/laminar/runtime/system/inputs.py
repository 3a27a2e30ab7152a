"""Where rows come from, as relations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from laminar.runtime.definitions import TableDefinition
from laminar.runtime.system.table import Rows, SystemTable, columns

if TYPE_CHECKING:
    from laminar.runtime.engine import Engine
    from laminar.runtime.visible import Visible

_SECRET = re.compile(r"password|secret|token|credential|(api|access|private).?key", re.IGNORECASE)


def shown_options(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return options as pairs, without what only their owner should know."""
    return [
        (name, "***" if _SECRET.search(name) else value) for name, value in sorted(options.items())
    ]


def _sources(engine: Engine, visible: Visible) -> Rows:
    for name, each in visible.catalog.definitions.items():
        if not isinstance(each, TableDefinition):
            continue
        offset = visible.manifest.offsets.get(name)
        start = offset if isinstance(offset, int) else 0
        waits = None if each.connector else sum(b.rows for b in engine.pending.after(name, start))
        yield (
            name,
            "source" if each.is_source else "table",
            each.connector,
            shown_options(each.options),
            [column for column, _, _ in each.columns],
            list(each.primary_key),
            None if offset is None else json.dumps(offset),
            waits,
            each.sql or None,
        )


def _nothing_yet(_engine: Engine, _visible: Visible) -> Rows:
    return ()


TABLES = (
    SystemTable(
        "sources",
        columns(
            "name string, kind string, connector string, options map<string,string>,"
            " columns array<string>, primary_key array<string>, position string,"
            " pending_rows bigint, definition string"
        ),
        _sources,
    ),
    SystemTable(
        "watermarks",
        columns("name string, node_type string, event_time string, watermark timestamp"),
        _nothing_yet,
    ),
    SystemTable(
        "late_rows",
        columns("view string, source string, epoch bigint, rows bigint, sent_to string"),
        _nothing_yet,
    ),
)
