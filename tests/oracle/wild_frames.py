"""Rows of literals as frames of Spark, and what is compared of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from laminar.model.quoting import backquoted
from laminar.testing.bags import Row

from .kinds import ALL_KINDS
from .wild_queries import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

TOGETHER = 8
"""How many queries run as one: a job has its price, and so has a wide union."""


def session_in(spark: SparkSession, zone: str, *, ansi: bool = True) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


def declared(columns: Columns) -> str:
    return ", ".join(
        f"{backquoted(column)} {ALL_KINDS[kind].ddl}" for column, kind in columns.items()
    )


def bind(session: SparkSession, name: str, columns: Columns, rows: list[list[str]]) -> None:
    frame = rows_frame(session, columns, rows)
    if rows:  # what is computed once is not folded into the queries
        frame = frame.coalesce(1).localCheckpoint()
    _noted(frame, columns).createOrReplaceTempView(backquoted(name))


def _noted(frame: DataFrame, columns: Columns) -> DataFrame:
    """Return a frame of which Spark knows which texts have a length, as it does of its tables."""
    for name, kind in columns.items():
        if note := ALL_KINDS[kind].note:
            frame = frame.withMetadata(name, {"__CHAR_VARCHAR_TYPE_STRING": note})
    return frame


def rows_frame(
    session: SparkSession, columns: Columns, rows: list[list[str]], number: str = ""
) -> DataFrame:
    """Return rows of literals; with a number, each says its place first."""
    kinds = [ALL_KINDS[kind] for kind in columns.values()]
    given = " UNION ALL ".join(
        f"SELECT {number.replace('0', str(place), 1)}{', ' if number else ''}"
        + ", ".join(
            f"{kind.kept.format(f'CAST({each} AS {kind.ddl})')} AS {backquoted(column)}"
            for each, column, kind in zip(row, columns, kinds, strict=True)
        )
        for place, row in enumerate(rows)
    )
    nothing = ", ".join(
        f"CAST(NULL AS {kind.ddl}) AS {backquoted(column)}"
        for column, kind in zip(columns, kinds, strict=True)
    )
    return session.sql(given or f"SELECT {nothing} WHERE FALSE")


def shown(frame: DataFrame) -> list[Row]:
    return [tuple(row) for row in _as_shown(frame).collect()]


def shown_together(frames: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
    """Run several queries as one: each has a column of its own in a union of all."""
    parts = [
        _as_shown(frame).selectExpr(f"{place} AS `#`", f"STRUCT(*) AS r{place}")
        for place, frame in enumerate(frames.values())
    ]
    united = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    found: dict[str, list[Row]] = {name: [] for name in frames}
    names = list(frames)
    for row in united.collect():
        found[names[row["#"]]].append(tuple(row[f"r{row['#']}"]))
    return found


def _as_shown(frame: DataFrame) -> DataFrame:
    items = (f"{_form(each.dataType)} AS {{0}}" for each in frame.schema)
    named = [
        item.format(backquoted(each.name)) for item, each in zip(items, frame.schema, strict=True)
    ]
    return frame.selectExpr(*named)


def _form(kind: DataType) -> str:
    """Return how a column is compared: as it is, or as what Python can hold."""
    said = kind.simpleString()
    if said == "variant":
        return "TO_JSON({0}) || SCHEMA_OF_VARIANT({0})"
    if said == "timestamp":
        return "UNIX_MICROS({0})"
    return "CAST({0} AS STRING)" if "interval" in said else "{0}"
