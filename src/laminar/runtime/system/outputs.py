"""Where rows go, as relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.runtime.system.inputs import shown_options
from laminar.runtime.system.table import Rows, SystemTable, columns

if TYPE_CHECKING:
    from laminar.runtime.engine import Engine
    from laminar.runtime.visible import Visible


def _sinks(engine: Engine, visible: Visible) -> Rows:
    for sink in engine.publisher.sinks():
        cursor = engine.publisher.cursor(sink.name)
        lag = visible.manifest.epoch - cursor if cursor is not None else None
        yield (
            sink.name,
            sink.relation,
            sink.connector,
            shown_options(sink.options),
            sink.promise,
            cursor,
            lag,
            sink.sql or None,
        )


TABLES = (
    SystemTable(
        "sinks",
        columns(
            "name string, relation string, connector string, options map<string,string>,"
            " promise string, cursor bigint, lag bigint, definition string"
        ),
        _sinks,
    ),
)
