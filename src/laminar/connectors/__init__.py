"""Where rows come from and go to: the protocols, the connectors by name, and some of them."""

from laminar.connectors import datagen, files, sink_console, sink_files, sink_sqlite
from laminar.connectors.datagen import DatagenSource
from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.files import FilesSource
from laminar.connectors.options import Options
from laminar.connectors.sink import (
    SinkConnector,
    SinkFactory,
    SinkSpec,
    create_sink,
    register_sink,
    sink_connectors,
)
from laminar.connectors.source import (
    AcknowledgedSource,
    ArrowSource,
    ClosingSource,
    ExplainingSource,
    Offset,
    Source,
    close,
    explain_failure,
    read_arrow,
)
from laminar.connectors.source_registry import (
    SourceFactory,
    SourceSpec,
    alterable_options,
    create_source,
    register_source,
    source_connectors,
    with_absolute_paths,
)

register_source(files.NAME, files.files_source, about=files.ABOUT, options=files.OPTIONS)
register_source(datagen.NAME, datagen.datagen_source, about=datagen.ABOUT, options=datagen.OPTIONS)
for _sink, _factory in (
    (sink_files, sink_files.files_sink),
    (sink_console, sink_console.console_sink),
    (sink_sqlite, sink_sqlite.sqlite_sink),
):
    register_sink(_sink.NAME, _factory, about=_sink.ABOUT, options=_sink.OPTIONS)

__all__ = [
    "AcknowledgedSource",
    "ArrowSource",
    "ClosingSource",
    "DatagenSource",
    "ExplainingSource",
    "FilesSource",
    "Offset",
    "Option",
    "OptionType",
    "Options",
    "SinkConnector",
    "SinkFactory",
    "SinkSpec",
    "Source",
    "SourceFactory",
    "SourceSpec",
    "alterable_options",
    "close",
    "create_sink",
    "create_source",
    "explain_failure",
    "read_arrow",
    "register_sink",
    "register_source",
    "sink_connectors",
    "source_connectors",
    "with_absolute_paths",
]
