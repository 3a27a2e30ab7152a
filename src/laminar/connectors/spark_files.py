"""Files read by Spark, with an explicit schema that is kept to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.connectors.spark_functions import f
from laminar.model.quoting import source_uri
from laminar.model.schema import Field, Schema
from laminar.model.types import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NARROW = re.compile(r"(?<![\w`.])(?:tinyint|smallint)(?=[,>]|$)")


def read_files(
    spark: SparkSession,
    format_name: str,
    paths: Sequence[Path],
    schema: Schema,
    options: Mapping[str, str],
) -> DataFrame:
    """Return the rows of the files; a value that does not fit its column fails the job.

    A file is split among the cores as long as each gets `spark.sql.files.openCostInBytes` of it
    (4 MB by default; the setting belongs to the session, no reader option replaces it).
    """
    declared = ", ".join(field.ddl() for field in schema)
    if not paths:
        return spark.createDataFrame([], declared)
    wide = ", ".join(f"{quoted_name(field.name)} {widened(field.type)}" for field in schema)
    frame = (
        spark.read.schema(wide)
        .options(**dict(options))
        .format(format_name)
        .load([source_uri(path) for path in paths])
    )
    return frame.select(*map(_checked, schema))


def widened(kind: str) -> str:
    """Return the type that is safe to parse as: Spark's JSON reader lets 200 be a TINYINT -56."""
    return _NARROW.sub("int", kind)


def _checked(field: Field) -> Column:
    column = f.col(quoted_name(field.name))
    if widened(field.type) != field.type:
        column = column.cast(field.type)
    if not field.nullable:
        # A reader makes every column nullable, so this is the only place where it is checked.
        absent = f.raise_error(f.lit(f'column "{field.name}" is NOT NULL')).cast(field.type)
        column = f.coalesce(column, absent)
    return column.alias(field.name)
