"""The connector `datagen`: rows made up from their numbers, the same ones every time.

Without a kind, a TIMESTAMP is `timestamp`, a STRING `choice` among ten, a first column of whole
numbers `sequence`, and everything else `random`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.connectors.datagen_fields import Generator, generator
from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.options import Options
from laminar.connectors.source import Offset
from laminar.connectors.source_registry import SourceSpec
from laminar.errors.connectors import SourceReadFailed
from laminar.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "datagen"
ABOUT = "rows made up from their numbers, the same ones every time"
OPTIONS = (
    # Row n is the same under both.
    Option(
        "rows_total",
        "how many rows there are",
        OptionType.INTEGER,
        "no end",
        at_least=0,
        is_alterable=True,
    ),
    Option(
        "rows_per_batch",
        "how many rows an epoch takes",
        OptionType.INTEGER,
        "100000",
        at_least=1,
        is_alterable=True,
    ),
    Option("seed", "another seed gives other rows", OptionType.INTEGER, "0"),
    Option(
        "fields.<column>.kind",
        "how its values are made",
        OptionType.CHOICE,
        "by its type",
        choices=("sequence", "random", "choice", "timestamp"),
    ),
    Option("fields.<column>.nulls", "share of NULLs, from 0 to 1", OptionType.NUMBER, "0"),
    Option(
        "fields.<column>.start", "sequence, timestamp: the first value", default="0, 2024-01-01"
    ),
    Option(
        "fields.<column>.step",
        "sequence, timestamp: the distance between rows",
        default="1, 1 second",
    ),
    Option(
        "fields.<column>.prefix",
        "sequence of strings: what stands before the number",
        default="its name and -",
    ),
    Option("fields.<column>.min", "random: the least value"),
    Option("fields.<column>.max", "random: whole numbers and dates up to it, others below it"),
    Option(
        "fields.<column>.decimals",
        "random DOUBLE or FLOAT: digits after the point",
        OptionType.INTEGER,
        "2",
    ),
    Option(
        "fields.<column>.length", "random string: its length, up to 32", OptionType.INTEGER, "8"
    ),
    Option("fields.<column>.values", "choice: values with commas between them"),
)


class DatagenSource:
    """Rows 0, 1, 2, ...; the offset is the number of the next one."""

    append_only = True

    def __init__(
        self,
        name: str,
        schema: Schema,
        generators: tuple[Generator, ...],
        *,
        rows_per_batch: int,
        rows_total: int | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.rows_per_batch = rows_per_batch
        self.rows_total = rows_total
        self._generators = generators

    def latest_offset(self, start: Offset | None) -> Offset | None:
        """Return the number after the next batch; None if all rows are out."""
        first = self._row(start)
        end = first + self.rows_per_batch
        if self.rows_total is not None:
            end = min(end, self.rows_total)
        return end if end > first else None

    def read(self, spark: SparkSession, start: Offset | None, end: Offset) -> DataFrame:
        """Return rows `start` to `end` - 1."""
        rows = spark.range(self._row(start), self._row(end))
        columns = [
            generate(rows["id"]).cast(field.type).alias(field.name)
            for field, generate in zip(self.schema, self._generators, strict=True)
        ]
        return rows.select(*columns)

    def _row(self, offset: Offset | None) -> int:
        if offset is None:
            return 0
        if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
            return offset
        raise SourceReadFailed(self.name, f"{offset!r} is not the number of a row")


def datagen_source(spec: SourceSpec) -> DatagenSource:
    """Build the source; the types of its columns decide which options there are."""
    options = Options.of(NAME, spec.options)
    seed = options.integer("seed", spec.seed)
    generators = tuple(
        generator(field, first=index == 0, seed=seed, options=options)
        for index, field in enumerate(spec.schema)
    )
    return DatagenSource(
        spec.name,
        spec.schema,
        generators,
        rows_per_batch=options.integer("rows_per_batch", 100_000, at_least=1),
        rows_total=options.integer("rows_total", 0, at_least=0)
        if "rows_total" in options
        else None,
    )
