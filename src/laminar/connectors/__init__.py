"""Where rows come from: the source protocol, the connectors by name, and two of them."""

from laminar.connectors import datagen, files
from laminar.connectors.datagen import DatagenSource
from laminar.connectors.files import FilesSource
from laminar.connectors.options import Options
from laminar.connectors.registry import (
    SourceFactory,
    SourceSpec,
    create_source,
    register_source,
    source_connectors,
)
from laminar.connectors.source import (
    ArrowSource,
    ClosingSource,
    ExplainingSource,
    Offset,
    Source,
    close,
    explain_failure,
    read_arrow,
)

register_source(files.NAME, files.files_source)
register_source(datagen.NAME, datagen.datagen_source)

__all__ = [
    "ArrowSource",
    "ClosingSource",
    "DatagenSource",
    "ExplainingSource",
    "FilesSource",
    "Offset",
    "Options",
    "Source",
    "SourceFactory",
    "SourceSpec",
    "close",
    "create_source",
    "explain_failure",
    "read_arrow",
    "register_source",
    "source_connectors",
]
