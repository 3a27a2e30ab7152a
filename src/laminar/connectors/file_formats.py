"""How each file format is read: by Spark, and for small batches by Arrow alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.connectors.format_csv import BadLine, CsvDialect, first_bad_line, read_csv
from laminar.connectors.format_json import read_json
from laminar.connectors.format_parquet import read_parquet
from laminar.connectors.options import Options

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One way rows are written down.

    `reader_options` make Spark read what `read_arrow` reads. `first_bad_line` finds what Spark
    would take without complaint and get wrong.
    """

    name: str
    patterns: Sequence[str]
    read_arrow: Callable[[Path, pa.Schema], pa.Table | None]
    reader_options: Mapping[str, str]
    first_bad_line: Callable[[Path], BadLine | None] = lambda _: None
    nested: bool = True
    lines: bool = True


PATTERNS: dict[str, tuple[str, ...]] = {
    "json": ("*.json", "*.jsonl", "*.ndjson"),
    "csv": ("*.csv",),
    "parquet": ("*.parquet",),
}
"""Format -> the names of its files."""

COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".snappy", ".deflate", ".lz4", ".xz"})
"""Endings of names that Spark unpacks by; nothing else here looks into such a file."""

# Text without a zone means UTC wherever it is read, and one wrong row stops the batch.
_TEXT = {"timeZone": "UTC", "mode": "FAILFAST", "encoding": "UTF-8"}


def file_format(name: str, options: Options) -> FileFormat:
    """Build the format, with those of the options that belong to it."""
    return _BUILDERS[name](options)


def _json(options: Options) -> FileFormat:
    del options  # It has none.
    return FileFormat("json", PATTERNS["json"], read_json, _TEXT)


def _csv(options: Options) -> FileFormat:
    dialect = CsvDialect(options.boolean("header", default=True), _delimiter(options))
    reader_options = {
        **_TEXT,
        "header": str(dialect.header).lower(),
        "sep": dialect.delimiter,
        "quote": '"',
        # A quote inside quotes is doubled, as everywhere but in Spark's default.
        "escape": '"',
        # The names in the header must be the declared ones: columns are taken by position.
        "enforceSchema": "false",
    }
    return FileFormat(
        "csv",
        PATTERNS["csv"],
        partial(read_csv, dialect=dialect),
        reader_options,
        lambda path: None if path.suffix in COMPRESSED else first_bad_line(path),
        nested=False,
    )


def _parquet(options: Options) -> FileFormat:
    del options  # It has none.
    return FileFormat("parquet", PATTERNS["parquet"], read_parquet, {}, lines=False)


def _delimiter(options: Options) -> str:
    text = options.text("delimiter", ",")
    delimiter = "\t" if text == "\\t" else text
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise options.bad("delimiter", "one ASCII character other than a quote, or \\t")
    return delimiter


_BUILDERS: dict[str, Callable[[Options], FileFormat]] = {
    "json": _json,
    "csv": _csv,
    "parquet": _parquet,
}
