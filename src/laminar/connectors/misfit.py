"""Finding the row that does not fit, after Spark has said that there is one."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.connectors.file_formats import COMPRESSED, FileFormat
from laminar.connectors.spark_files import read_files, widened
from laminar.connectors.spark_functions import f
from laminar.errors.connectors import RowDoesNotFit, SourceError, SourceReadFailed
from laminar.errors.sentences import first_sentence
from laminar.model.quoting import source_uri
from laminar.model.schema import Field, Schema
from laminar.model.types import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BAD = "__misfit"
_RANGES = {"tinyint": 1 << 7, "smallint": 1 << 15}


@dataclass(frozen=True, slots=True)
class Misfits:
    """A careful second reading: slow, and only ever done when the first one failed."""

    source: str
    schema: Schema
    format: FileFormat

    def first(self, spark: SparkSession, paths: Iterable[Path]) -> SourceError | None:
        """Return what is wrong with the first file that cannot be read, and where."""
        return next(filter(None, (self._in_file(spark, path) for path in paths)), None)

    def _in_file(self, spark: SparkSession, path: Path) -> SourceError | None:
        bad = self.format.first_bad_line(path)
        if bad is not None:
            return self._row(path, bad.reason, bad.number, bad.text)
        failure = self._attempt(spark, path)
        if failure is None:
            return None
        if not self.format.lines:
            return SourceReadFailed(self.source, failure, file=str(path))
        return (
            self._refused_by_spark(spark, path)
            or self._outside_the_schema(path)
            or SourceReadFailed(self.source, failure, file=str(path))
        )

    def _attempt(self, spark: SparkSession, path: Path) -> str | None:
        try:
            frame = read_files(
                spark, self.format.name, [path], self.schema, self.format.reader_options
            )
            frame.write.format("noop").mode("overwrite").save()
        # What Spark raises differs between a local session, where much of it is Java's, and a
        # remote one.
        except Exception as error:
            return first_sentence(str(error))
        return None

    def _refused_by_spark(self, spark: SparkSession, path: Path) -> SourceError | None:
        columns = [f"{quoted_name(field.name)} {widened(field.type)}" for field in self.schema]
        options = {
            **self.format.reader_options,
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _BAD,
        }
        try:
            rows = (
                spark.read.schema(", ".join([*columns, f"{_BAD} string"]))
                .options(**options)
                .format(self.format.name)
                .load(source_uri(path))
                .where(f.col(_BAD).isNotNull())
                .take(1)
            )
        except Exception:
            return None
        if not rows:
            return None
        text = str(rows[0][_BAD])
        number = next((number for number, line in _lines(path) if line == text), None)
        return self._row(path, self._reason(spark, text), number, text)

    def _reason(self, spark: SparkSession, text: str) -> str:
        """Name the columns that cannot be read from the line, each tried by itself."""
        if self.format.name != "json":
            return f"the columns are {self.schema.ddl()}"
        line = spark.createDataFrame([(text,)], "line string")
        options = {**self.format.reader_options, "mode": "PERMISSIVE"}
        options["columnNameOfCorruptRecord"] = _BAD
        tried = [
            f.from_json(
                "line", f"{quoted_name(field.name)} {widened(field.type)}, {_BAD} string", options
            )[_BAD].alias(str(index))
            for index, field in enumerate(self.schema)
        ]
        outcome = line.select(*tried).first() or ()
        failed = [field for field, bad in zip(self.schema, outcome, strict=False) if bad]
        if len(failed) == len(self.schema) and not _is_object(text):
            return "it is not a JSON object"
        return "; ".join(f'column "{field.name}" is {field.type}' for field in failed)

    def _outside_the_schema(self, path: Path) -> SourceError | None:
        """Look for what only Laminar refuses: NULL where there must be none, narrow integers."""
        for number, text, row in self._rows(path):
            for field in self.schema:
                value = row(field.name)
                if value is None and not field.nullable:
                    return self._row(path, f'column "{field.name}" is NOT NULL', number, text)
                if _too_wide(field, value):
                    return self._row(path, f'column "{field.name}" is {field.type}', number, text)
        return None

    def _rows(self, path: Path) -> Iterator[tuple[int, str, Callable[[str], object]]]:
        header = self.format.reader_options.get("header") == "true"
        for number, text in _lines(path):
            if not text.strip() or (header and number == 1):
                continue
            if self.format.name == "json":
                yield number, text, _load(text).get
            else:
                delimiter = self.format.reader_options["sep"]
                values = next(csv.reader([text], delimiter=delimiter))
                row = dict(
                    zip(self.schema.names, (value or None for value in values), strict=False)
                )
                yield number, text, row.get

    def _row(self, path: Path, reason: str, line: int | None, text: str) -> RowDoesNotFit:
        return RowDoesNotFit(self.source, reason, file=str(path), line=line, text=text)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix in COMPRESSED:
        return
    # Universal newlines, as Spark has them.
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            yield number, line.rstrip("\n")


def _load(text: str) -> dict[str, object]:
    try:
        row = json.loads(text)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{") and bool(_load(text))


def _too_wide(field: Field, value: object) -> bool:
    bound = _RANGES.get(field.type)
    return bound is not None and isinstance(value, int) and not -bound <= value < bound
