"""The sink `files`: one file per epoch that changed something, named by the epoch's number.

A row has the columns of the view, `__change` (`insert` or `delete`) and `__epoch`. Deletions come
first. A file appears complete under its name. After a crash an epoch is written again and takes
the place of the first, so whoever reads the folder sees every change once. The source `files`
reads such a folder. On a cluster the path must be the same on all machines.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from laminar.connectors import sink
from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.options import Options
from laminar.connectors.sink import CHANGE, SinkSpec, change_rows
from laminar.errors.connectors import BadOption
from laminar.model.quoting import target_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "files"
FORMATS = ("json", "csv", "parquet")
ABOUT = "one file per epoch that changed something"
OPTIONS = (
    Option("path", "a folder; it is created", OptionType.PATH, is_required=True),
    Option(
        "format",
        "JSON has one object per line, CSV a header",
        OptionType.CHOICE,
        "json",
        choices=FORMATS,
    ),
)

_EPOCH_FILE = re.compile(r"\d{12}\.(json|csv|parquet)")
_WORK_FOLDER = re.compile(r"\.\d{12}\.(json|csv|parquet)\.[0-9a-f]{8}")
_NESTED = ("array", "map", "struct", "binary", "variant")
_WRITE_OPTIONS = {
    "json": {"ignoreNullFields": "false"},
    "csv": {"header": "true"},
    "parquet": {"compression": "zstd"},
}
_ONE_FILE = {"maxRecordsPerFile": "0"}
"""An epoch appears as a whole, so it is one file, whatever the session says of long ones."""


class FilesSink:
    """Writes what each epoch changed into a file of its own."""

    promise = "exactly once: a file per epoch, replaced by the same file if it is written again"

    def __init__(self, folder: Path, layout: str) -> None:
        self.folder = folder
        self.format = layout
        self.target = str(folder)

    def begin(self) -> None:
        """Refuse a folder with epochs of another sink: nobody could tell whose they are."""
        for path in self.folder.iterdir():
            if _EPOCH_FILE.fullmatch(path.name):
                expected = f"a folder without files of another sink; there is {path.name}"
                raise BadOption(NAME, "path", str(self.folder), expected)

    def write(self, epoch: int, delta: DataFrame) -> None:
        """Write an epoch; one without rows has no file."""
        final = self.folder / f"{epoch:012d}.{self.format}"
        work = self.folder / f".{final.name}.{uuid.uuid4().hex[:8]}"
        rows = change_rows(epoch, delta).coalesce(1).sortWithinPartitions(CHANGE)
        self._remove_debris()
        # Not `finally`: a crash leaves the folder too, so a scripted one must as well.
        try:
            sink.reached("sink.before_write")
            writer = rows.write.options(**_WRITE_OPTIONS[self.format], **_ONE_FILE)
            writer.format(self.format).save(target_uri(work))
            sink.reached("sink.after_write")
            parts = [part for part in work.glob("part-*") if self._has_rows(part)]
            if len(parts) > 1:
                raise ValueError(f"Spark wrote {len(parts)} files for one epoch")
            for part in parts:
                _make_durable(part)
                sink.reached("sink.before_rename")
                part.replace(final)
                sink.reached("sink.after_rename")
            self._remove_other_formats(final)
            _make_durable(self.folder)
            sink.reached("sink.after_sync")
        except Exception:
            shutil.rmtree(work, ignore_errors=True)
            raise
        shutil.rmtree(work, ignore_errors=True)

    def _remove_debris(self) -> None:
        """Remove what a crash left behind; nobody else writes here."""
        for path in self.folder.iterdir():
            if _WORK_FOLDER.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)

    def _remove_other_formats(self, final: Path) -> None:
        """Remove what an epoch was before the sink was altered to another format."""
        for layout in FORMATS:
            if layout != self.format:
                final.with_suffix(f".{layout}").unlink(missing_ok=True)

    def _has_rows(self, part: Path) -> bool:
        if self.format == "parquet":
            return bool(pq.read_metadata(part).num_rows)
        with part.open("rb") as file:
            lines = 2 if self.format == "csv" else 1
            return sum(1 for _ in zip(range(lines), file, strict=False)) == lines


def _make_durable(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def files_sink(spec: SinkSpec) -> FilesSink:
    """Build the sink from what a user declared."""
    options = Options.of(NAME, spec.options)
    layout = options.choice("format", FORMATS, "json")
    for column in spec.schema if layout == "csv" else ():
        if column.type.lower().startswith(_NESTED):
            expected = f'json or parquet: column "{column.name}" is {column.type}'
            raise BadOption(NAME, "format", layout, expected)
    given = options.required("path", "the path of a folder")
    scheme, colon, rest = given.partition("://")
    if colon and scheme != "file":
        raise options.bad("path", "a path of this machine or of a mounted file system")
    folder = Path(rest if colon else given).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise options.bad("path", f"a folder that can be made ({error.strerror})") from None
    return FilesSink(folder, layout)
