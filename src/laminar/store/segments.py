"""Deltas become files, and files become frames again."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar.errors.store import SegmentCorrupt, SegmentMissing, StoreUnwritable
from laminar.model.quoting import source_uri, target_uri
from laminar.model.same_row import RowType
from laminar.model.trace import WEIGHT, Segment, Span
from laminar.store import durable_files, parquet, private
from laminar.store.names import folder_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

DATA = "data"
"""The folder of all segments under the store's root."""

COLLECT_LIMIT = 500_000
"""Up to so many rows a result travels through the driver, which saves the write job."""

ONE_TASK = 200_000
"""Up to so many rows are read by one task: more of them would cost more than they save."""

_DISK = re.compile(
    r"no space left on device|disk quota exceeded|permission denied|read-only file system"
    r"|mkdirs failed|not a directory",
    re.IGNORECASE,
)


class SegmentStore:
    """The data files of all relations under one root; which of them count, manifests say.

    Args:
        root: the folder of the database.
        spark: makes frames; without it, Arrow tables can be written and files verified.
        collect_limit: up to so many rows are carried through the driver.
    """

    def __init__(
        self, root: Path, spark: SparkSession | None = None, *, collect_limit: int = COLLECT_LIMIT
    ) -> None:
        # Absolute, because Spark's working directory need not be ours.
        self.root = root.resolve()
        self._session = spark
        self.collect_limit = collect_limit
        self._structs: dict[str, StructType] = {}
        self._readers: dict[str, DataFrameReader] = {}
        self._empties: dict[str, DataFrame] = {}
        self._arrows: dict[str, pa.Schema | None] = {}

    def materialise(
        self,
        relation: str,
        epoch: int,
        df: DataFrame,
        expected_rows: int,
        times: Sequence[str] = (),
    ) -> Segment | None:
        """Compute a delta and keep it, the cheaper way for its size; None if it has no rows.

        Args:
            relation: whose rows they are.
            epoch: the epoch they belong to.
            df: what to compute.
            expected_rows: a guess.
            times: columns of which the segment shall know the least and the largest value.
        """
        if expected_rows > self.collect_limit:
            return self.write_frame(relation, epoch, df, times)
        table = _collect(df)
        if table is None:
            return self.write_frame(relation, epoch, df, times)
        return self.write_arrow(relation, epoch, table, times)

    def write_arrow(
        self, relation: str, epoch: int, table: pa.Table, times: Sequence[str] = ()
    ) -> Segment | None:
        """Write a delta as one file, durable on return; None if it has no rows."""
        if table.num_rows == 0:
            return None
        delta = parquet.weighted(table)
        found = parquet.spans(delta, times)
        return self._write_one(relation, epoch, delta.schema, [delta], found)

    def write_frame(
        self, relation: str, epoch: int, df: DataFrame, times: Sequence[str] = ()
    ) -> Segment | None:
        """Let Spark write a delta as several files, durable on return; None if it has no rows."""
        delta = df if WEIGHT in df.columns else df.selectExpr("*", f"1L AS {WEIGHT}")
        folder, stem = self._place_for(relation, epoch)
        target = folder / f".{stem}{durable_files.TEMP_SUFFIX}"
        # Not `finally`: a crash leaves the folder too, so a scripted one must as well.
        try:
            durable_files.failpoint("segment.before_write")
            _spark_write(delta, target)
            durable_files.failpoint("segment.after_write")
            with durable_files.unwritable(target):
                written = _adopt(target, folder, stem)
        except Exception:
            durable_files.remove_tree(target, point="segment")
            raise
        found = parquet.spans_of_files([part.path for part in written], times)
        return self._segment(epoch, written, found)

    def concatenate(
        self, relation: str, epoch: int, schema: str, segments: Sequence[Segment]
    ) -> Segment | None:
        """Write the rows of segments into one, as they are; its epochs are for the caller."""
        target = self._arrow_schema(schema)
        if target is None:
            return self.write_frame(relation, epoch, self.frame(schema, segments))
        paths = [self.root / file for segment in segments for file in segment.files]
        return self._write_one(relation, epoch, target, parquet.conformed(paths, target))

    def frame(self, schema: str, segments: Sequence[Segment]) -> DataFrame:
        """Return Σ of segments, unconsolidated, as a frame; no job runs and nothing is listed."""
        names = [file for segment in segments for file in segment.files]
        if not names:
            return self._empty(schema)
        try:
            frame = self._reader(schema).parquet(*(source_uri(self.root / name) for name in names))
        except Exception:
            self._require(names)
            raise
        if sum(segment.rows for segment in segments) > ONE_TASK:
            return frame
        # One partition is what every operator asks of its input: nothing is shuffled.
        return frame.coalesce(1)

    def folder_frame(self, schema: str, folder: Path) -> DataFrame:
        """Return the rows of all files that a folder shows; which they are is looked up now."""
        return self._reader(schema).parquet(source_uri(folder))

    def struct(self, schema: str) -> StructType:
        """Return DDL text as Spark's own schema, parsed once."""
        found = self._structs.get(schema)
        if found is None:
            # Read from a frame, because a schema's own parser needs the same session anyway.
            found = self._structs[schema] = self._empty(schema).schema
        return found

    def verify(self, segment: Segment) -> None:
        """Check that every file is there and holds the bytes that were written.

        Raises:
            SegmentMissing: a file is gone.
            SegmentCorrupt: a file has changed.
        """
        self._require(segment.files)
        for name, expected in zip(segment.files, segment.checksums, strict=True):
            found = durable_files.checksum(self.root / name)
            if found != expected:
                raise SegmentCorrupt(
                    str(self.root / name), f"checksum is {found}, written was {expected}"
                )

    def _write_one(
        self,
        relation: str,
        epoch: int,
        schema: pa.Schema,
        tables: Iterable[pa.Table],
        found: Mapping[str, Span] | None = None,
    ) -> Segment | None:
        folder, stem = self._place_for(relation, epoch)
        path = folder / f"{stem}.parquet"
        with durable_files.unwritable(path):
            durable_files.failpoint("segment.before_write")
            written = _write_file(path, schema, tables)
            durable_files.failpoint("segment.after_write")
        return self._segment(epoch, [written], found or {})

    def _segment(
        self, epoch: int, written: Sequence[_Written], found: Mapping[str, Span]
    ) -> Segment | None:
        if not written:
            return None
        return Segment(
            files=tuple(part.path.relative_to(self.root).as_posix() for part in written),
            lo=epoch,
            hi=epoch,
            rows=sum(part.rows for part in written),
            bytes=sum(part.bytes for part in written),
            insert_only=all(part.weights[0] >= 0 for part in written),
            units=all(part.weights == (1, 1) for part in written),
            checksums=tuple(part.checksum for part in written),
            positive=tuple(sorted(frozenset.intersection(*(part.positive for part in written)))),
            spans=found,
        )

    def _place_for(self, relation: str, epoch: int) -> tuple[Path, str]:
        folder = self.root / DATA / folder_name(relation)
        with durable_files.unwritable(folder):
            durable_files.make_dir(folder)
        return folder, f"{epoch:012d}-{uuid.uuid4().hex[:12]}"

    @property
    def _spark(self) -> SparkSession:
        if self._session is None:
            raise TypeError("a store without Spark makes no frames")
        return self._session

    def _reader(self, schema: str) -> DataFrameReader:
        found = self._readers.get(schema)
        if found is None:
            # Kept, because handing a schema to Spark costs a third of making a frame.
            reader = self._spark.read.options(**parquet.reading_options(schema))
            found = self._readers[schema] = reader.schema(self.struct(schema))
        return found

    def _empty(self, schema: str) -> DataFrame:
        found = self._empties.get(schema)
        if found is None:
            # A constant that is filtered away: the optimiser drops it and all that hangs on it,
            # where an empty RDD would be scanned.
            found = self._empties[schema] = self._spark.sql(
                f"SELECT r.* FROM (SELECT CAST(NULL AS STRUCT<{schema}>) AS r) WHERE false"
            )
        return found

    def _arrow_schema(self, schema: str) -> pa.Schema | None:
        if schema not in self._arrows:
            self._arrows[schema] = _schema_of_files(self._empty(schema))
        return self._arrows[schema]

    def forget_frames(self) -> None:
        """Make frames anew from now on: those there were belong to a Spark that is gone."""
        self._readers.clear()
        self._empties.clear()

    def _require(self, names: Iterable[str]) -> None:
        for name in names:
            if not (self.root / name).exists():
                raise SegmentMissing(str(self.root / name))


def row_type(schema: StructType) -> RowType:
    """Return columns and types of stored rows, without their weight."""
    return RowType.of({f.name: f.dataType.simpleString() for f in schema if f.name != WEIGHT})


@dataclass(frozen=True, slots=True)
class _Written:
    """A data file that is durable."""

    path: Path
    rows: int
    bytes: int
    weights: tuple[int, int]
    """The smallest and the largest."""
    checksum: str
    positive: frozenset[str] = frozenset()
    """Accumulators that are greater than zero in every row; nothing is known of Spark's files."""


def _collect(df: DataFrame) -> pa.Table | None:
    # Imported here: a store is also read by processes that never load Spark.
    from laminar.store.collect import collect

    return collect(df)


def _schema_of_files(empty: DataFrame) -> pa.Schema | None:
    """Return how Arrow reads files of a frame's rows; None if it cannot.

    A variant in a file of Spark's is cut into typed parts, which Arrow does not put together.
    """
    from laminar.store.collect import carried

    nothing = _collect(empty) if carried(empty.schema) else None
    return None if nothing is None else nothing.schema


def _write_file(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> _Written:
    rows = 0
    ranges: list[tuple[int, int]] = []
    positive: list[frozenset[str]] = []

    def counted() -> Iterator[pa.Table]:
        nonlocal rows
        for table in tables:
            rows += table.num_rows
            ranges.append(parquet.weights(table))
            positive.append(parquet.positive(table))
            yield table

    file = durable_files.SummedFile(path, "segment")
    try:
        parquet.write(file, schema, counted())
        spread = (min(low for low, _ in ranges), max(high for _, high in ranges))
        above = frozenset.intersection(*positive)
        return _Written(path, rows, file.size, spread, file.seal(), above)
    except Exception:
        file.close()
        durable_files.remove_quietly(path, point="segment")
        raise


def _spark_write(df: DataFrame, target: Path) -> None:
    try:
        df.write.option("compression", "lz4_raw").parquet(target_uri(target))
    except Exception as error:
        # Spark says it in one of several classes, the job's own errors in the same ones.
        if found := _DISK.search(str(error)):
            raise StoreUnwritable(str(target), found.group().lower()) from error
        raise


def _adopt(source: Path, folder: Path, stem: str) -> list[_Written]:
    """Take over what Spark wrote, without its empty files and its markers."""
    parts = sorted(source.glob("part-*.parquet"))
    found = [(part, *parquet.footer(part)) for part in parts]
    kept = [entry for entry in found if entry[1]]
    written = []
    for number, (part, rows, spread) in enumerate(kept):
        private.close_to_others(part)  # Spark wrote it, under the umask of its own processes
        durable_files.sync_file(part)
        path = folder / f"{stem}-{number}.parquet"
        written.append(
            _Written(path, rows, part.stat().st_size, spread, durable_files.checksum(part))
        )
    durable_files.failpoint("segment.before_rename")
    for (part, *_), done in zip(kept, written, strict=True):
        part.rename(done.path)
        durable_files.failpoint("segment.after_rename")
    durable_files.sync_dir(folder)
    durable_files.failpoint("segment.after_sync")
    durable_files.remove_tree(source, point="segment")
    return written
