"""What the tests of this folder share: files, sources over them, and bags of rows."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from laminar.connectors import FilesSource, Source, SourceSpec, create_source
from laminar.model.schema import Schema


def write(folder: Path, name: str, content: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def files(path: Path, schema: str, **options: str) -> FilesSource:
    spec = SourceSpec("events", Schema.parse(schema), {"path": str(path), **options})
    source = create_source("files", spec)
    assert isinstance(source, FilesSource)
    return source


def bag(table: pa.Table) -> Counter[Any]:
    """Count the rows; two floats are equal only if their bits are."""
    return Counter(_frozen(row) for row in table.to_pylist())


def by_spark(source: Source, spark: SparkSession, start: Any = None, end: Any = None) -> pa.Table:
    end = source.latest_offset(start) if end is None else end
    assert end is not None
    return source.read(spark, start, end).toArrow()


def by_arrow(source: FilesSource, start: Any = None, end: Any = None) -> pa.Table | None:
    end = source.latest_offset(start) if end is None else end
    assert end is not None
    return source.read_arrow(start, end)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _frozen(part)) for name, part in value.items())
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return struct.pack("d", value) if isinstance(value, float) else value
