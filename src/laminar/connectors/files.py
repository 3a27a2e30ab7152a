r"""The connector `files`: the files of a folder, in the order of their names.

A file must be complete when it gets its name: write it elsewhere, or under a name that starts
with `.` or `_`, and rename it. New files must sort behind the old ones, and files must stay as
they are; one that appears before the last file taken, or vanishes, is an error and not a gap.
On a cluster the path must be the same on all machines.

Times without a zone are UTC. JSON and CSV rows that do not fit the schema stop the epoch with
the file and the line; missing JSON fields are NULL, unknown ones are not looked at.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar.connectors.arrow_types import arrow_schema
from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.file_formats import COMPRESSED, PATTERNS, FileFormat, file_format
from laminar.connectors.misfit import Misfits
from laminar.connectors.options import Options
from laminar.connectors.source import Json, Offset
from laminar.connectors.source_registry import SourceSpec
from laminar.connectors.spark_files import read_files
from laminar.errors.connectors import MissingOption, RowDoesNotFit, SourceError, SourceReadFailed
from laminar.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "files"
ABOUT = "the files of a folder, in the order of their names"
OPTIONS = (
    # Files are counted by their names, wherever their folder is.
    Option("path", "a folder, or one file", OptionType.PATH, is_required=True, is_alterable=True),
    Option(
        "format",
        "JSON has one object per line",
        OptionType.CHOICE,
        "by the files' names",
        choices=tuple(PATTERNS),
    ),
    Option("pattern", "which files of the folder, such as `trades-*.json`", default="by format"),
    Option(
        "max_files_per_batch",
        "how many files an epoch takes at most",
        OptionType.INTEGER,
        "all there are",
        at_least=1,
        is_alterable=True,
    ),
    Option("header", "CSV: whether the first line names the columns", OptionType.BOOLEAN, "true"),
    Option("delimiter", "CSV: what stands between values; `\\t` is a tab", default=","),
)
ARROW_LIMIT = 256 << 20
"""Bytes of a batch up to which one process reads it faster than Spark would."""

_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class Taken:
    """All files up to and including `last` are taken: `count` of them."""

    last: str = ""
    count: int = 0

    def as_json(self) -> dict[str, Json]:
        """Return the offset as the engine keeps it."""
        return {"last": self.last, "count": self.count}


@dataclass(slots=True)
class Folder:
    """Files that only ever come behind the last one taken.

    Law: the files of `(start, end]` are the same whenever they are asked for. A folder cannot
    promise that, so each use counts what lies before the offset, and a file that came late or
    has gone is an error instead of a difference.
    """

    source: str
    path: Path
    patterns: Sequence[str]
    # What was there when an offset was last found good: only to name the culprit later.
    _seen: frozenset[str] = field(default_factory=frozenset, init=False)

    def names(self) -> list[str]:
        """Return the names of all files that match, in order."""
        if self.path.is_file():
            return [self.path.name]
        try:
            with os.scandir(self.path) as entries:
                found = [entry.name for entry in entries if self._matches(entry)]
        except OSError as error:
            raise SourceReadFailed(
                self.source, error.strerror or error, file=str(self.path)
            ) from error
        return sorted(found)

    def file(self, name: str) -> Path:
        """Return where the file of that name lies."""
        return self.path if self.path.name == name and self.path.is_file() else self.path / name

    def after(self, start: Offset | None, limit: int | None) -> Taken | None:
        """Return the offset after at most `limit` further files; None if there are none."""
        names, taken = self.names(), self.taken(start)
        self._check(names, taken)
        upto = len(names) if limit is None else min(len(names), taken.count + limit)
        return Taken(names[upto - 1], upto) if upto > taken.count else None

    def between(self, start: Offset | None, end: Offset) -> list[Path]:
        """Return the files after `start` up to `end`, in order."""
        names, first, last = self.names(), self.taken(start), self.taken(end)
        self._check(names, first)
        self._check(names, last)
        return [self.file(name) for name in names[first.count : last.count]]

    def taken(self, offset: Offset | None) -> Taken:
        """Read an offset back."""
        if offset is None:
            return Taken()
        if isinstance(offset, Mapping):
            last, count = offset.get("last"), offset.get("count")
            if isinstance(last, str) and isinstance(count, int):
                return Taken(last, count)
        raise SourceReadFailed(self.source, f"{offset!r} is not an offset of a folder")

    def _matches(self, entry: os.DirEntry[str]) -> bool:
        name = entry.name
        return (
            not name.startswith(_HIDDEN)
            and any(fnmatchcase(name, pattern) for pattern in self.patterns)
            and entry.is_file()
        )

    def _check(self, names: list[str], taken: Taken) -> None:
        before = set(names[: bisect_right(names, taken.last)])
        known = {name for name in self._seen if name <= taken.last}
        if len(known) != taken.count:
            known = set()  # Started after they were taken: only their number is known.
        complete = len(before) == taken.count and (not before or taken.last in before)
        if complete and known in (set(), before):
            self._seen |= before
            return
        gone = sorted(known - before) or [taken.last] * (taken.last not in before)
        if gone or len(before) < taken.count:
            raise self._vanished(gone, len(before), taken)
        late = sorted(before - known) if known else [self._youngest(before)]
        raise self._came_late(late, len(before) - taken.count)

    def _vanished(self, gone: list[str], left: int, taken: Taken) -> SourceReadFailed:
        which = f'"{gone[0]}"' if gone else "one of them"
        return SourceReadFailed(
            self.source,
            f'{taken.count} files up to "{taken.last}" were taken, {left} are there now: '
            f"{which} has gone",
            file=str(self.path / gone[0]) if gone else str(self.path),
            hint="put the file back; keep files until no epoch needs to be replayed",
        )

    def _came_late(self, late: list[str], number: int) -> SourceReadFailed:
        return SourceReadFailed(
            self.source,
            f"{number} file(s) appeared with a name before the last one taken, "
            f'where they would never be read; first of them: "{late[0]}"',
            file=str(self.path / late[0]),
            hint="give new files names that sort behind the old ones",
        )

    def _youngest(self, names: Iterable[str]) -> str:
        # After a restart nothing is known but the count; the last file to change is the likeliest.
        return max(names, key=lambda name: self.file(name).stat().st_ctime_ns)


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
        self._required = [field.name for field in schema if not field.nullable]

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
            if table is None or any(table[name].null_count for name in self._required):
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
