r"""The connector `files`: the files of a folder, in the order of their names.

| option | meaning |
|---|---|
| `path` | a folder, or one file |
| `format` | `json` (one object per line), `csv` or `parquet`; default: by the files' names |
| `pattern` | which files of the folder, such as `trades-*.json`; default: by the format |
| `max_files_per_batch` | how many files an epoch takes at most; default: all there are |
| `header` | CSV: whether the first line names the columns; default `true` |
| `delimiter` | CSV: what stands between values, `\t` is a tab; default `,` |

A file must be complete when it gets its name: write it elsewhere, or under a name that starts
with `.` or `_`, and rename it. New files must sort behind the old ones, and files must stay as
they are; one that appears before the last file taken, or vanishes, is an error and not a gap.
On a cluster the path must be the same on all machines.

Times without a zone are UTC. JSON and CSV rows that do not fit the schema stop the epoch with
the file and the line; missing JSON fields are NULL, unknown ones are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar.connectors.arrow_types import arrow_schema, null_where_forbidden
from laminar.connectors.file_formats import COMPRESSED, PATTERNS, FileFormat, file_format
from laminar.connectors.folder import Folder
from laminar.connectors.misfit import Misfits
from laminar.connectors.options import Options
from laminar.connectors.registry import SourceSpec
from laminar.connectors.source import Offset
from laminar.connectors.spark_files import read_files
from laminar.errors.connectors import MissingOption, RowDoesNotFit, SourceError
from laminar.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "files"
ARROW_LIMIT = 256 << 20
"""Bytes of a batch up to which one process reads it faster than Spark would."""


class FilesSource:
    """Reads whole files; `read` and `read_arrow` give the same rows."""

    append_only = True

    def __init__(
        self,
        name: str,
        schema: Schema,
        folder: Folder,
        layout: FileFormat,
        max_files_per_batch: int | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.folder = folder
        self.format = layout
        self.max_files_per_batch = max_files_per_batch
        self._arrow_schema = arrow_schema(schema)

    def latest_offset(self, start: Offset | None) -> Offset | None:
        """Return the offset after the next files; None if there are none."""
        taken = self.folder.after(start, self.max_files_per_batch)
        return None if taken is None else taken.as_json()

    def read(self, spark: SparkSession, start: Offset | None, end: Offset) -> DataFrame:
        """Return the rows of the files after `start` up to `end`."""
        paths = self.folder.between(start, end)
        for path in paths:
            bad = self.format.first_bad_line(path)
            if bad is not None:
                raise RowDoesNotFit(
                    self.name, bad.reason, file=str(path), line=bad.number, text=bad.text
                )
        return read_files(spark, self.format.name, paths, self.schema, self.format.reader_options)

    def read_arrow(self, start: Offset | None, end: Offset) -> pa.Table | None:
        """Return the same rows; None if they are too many, or if Spark must decide about them."""
        paths = self.folder.between(start, end)
        if self._arrow_schema is None or not _worth_it(paths):
            return None
        tables = [self._arrow_schema.empty_table()]
        for path in paths:
            table = self.format.read_arrow(path, self._arrow_schema)
            if table is None or null_where_forbidden(table, self.schema) is not None:
                return None
            tables.append(table)
        return pa.concat_tables(tables)

    def explain(self, spark: SparkSession, start: Offset | None, end: Offset) -> SourceError | None:
        """Return which row of which file does not fit; None if all do."""
        misfits = Misfits(self.name, self.schema, self.format)
        return misfits.first(spark, self.folder.between(start, end))


def files_source(spec: SourceSpec) -> FilesSource:
    """Build the source; what is not said follows from the path."""
    options = Options.of(NAME, spec.options)
    path = options.path("path")
    pattern = _pattern(options, path)
    layout = file_format(_format_name(options, path, pattern), options)
    if not layout.nested and (nested := _nested_column(spec.schema)) is not None:
        raise options.bad("format", f'json or parquet: column "{nested}" is nested')
    patterns: Sequence[str] = layout.patterns if pattern is None else [pattern]
    return FilesSource(
        spec.name,
        spec.schema,
        Folder(spec.name, path, patterns),
        layout,
        options.limit("max_files_per_batch"),
    )


def _pattern(options: Options, path: Path) -> str | None:
    pattern = options.get("pattern")
    if pattern is not None and (path.is_file() or "/" in pattern or not pattern):
        raise options.bad("pattern", "a pattern for names of files in the folder, without /")
    return pattern


def _format_name(options: Options, path: Path, pattern: str | None) -> str:
    if "format" in options:
        return options.choice("format", tuple(PATTERNS))
    # Only what is written down, or the names of all that is there, decides: never the first file.
    names = [path.name] if path.is_file() else [pattern] if pattern else _names(path)
    found = {_format_of(name) for name in names} - {None}
    if len(found) != 1:
        raise MissingOption(NAME, "format", f"one of: {', '.join(PATTERNS)}", options)
    return str(found.pop())


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def _format_of(name: str) -> str | None:
    suffixes = [suffix for suffix in Path(name).suffixes if suffix not in COMPRESSED]
    ending = f"*{suffixes[-1]}" if suffixes else ""
    return next((kind for kind, patterns in PATTERNS.items() if ending in patterns), None)


def _nested_column(schema: Schema) -> str | None:
    return next((field.name for field in schema if "<" in field.type), None)


def _worth_it(paths: Sequence[Path]) -> bool:
    return (
        not any(path.suffix in COMPRESSED for path in paths)
        and sum(path.stat().st_size for path in paths) <= ARROW_LIMIT
    )
