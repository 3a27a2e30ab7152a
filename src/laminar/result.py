"""The answer to a query, in the form the caller likes best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from laminar.runtime.refusals import SPARK_FAILS, explain_refusal

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame

    from laminar.delta.program import Shape

_T = TypeVar("_T")


class Result:
    """Rows of one consistent epoch. Nothing is computed until one of the forms is asked for.

    As in rows that are handed in, a Python time without a zone is in UTC, on every machine.
    """

    def __init__(
        self, frame: DataFrame, epoch: int, shapes: Mapping[str, Shape] | None = None
    ) -> None:
        self._frame = frame
        self._shapes = shapes or {}
        self.epoch = epoch
        self.columns: list[str] = list(frame.columns)

    def spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""
        return self._frame

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._run(self._frame.toArrow)

    def pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        with warnings.catch_warnings():
            # A query that fails is warned about at length, and then raised as well.
            warnings.filterwarnings("ignore", "toPandas attempted Arrow", UserWarning)
            return self._run(self._frame.toPandas)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        return [tuple(row) for row in self._collect(self._frame)]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        return [row.asDict(recursive=True) for row in self._collect(self._frame)]

    def head(self, limit: int) -> list[tuple[Any, ...]]:
        """Return the first rows as tuples."""
        return [tuple(row) for row in self._collect(self._frame.limit(limit))]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as tuples, without ever holding all of them."""
        instants = _holds_instants(self._frame.schema)
        rows = self._run(lambda: self._frame.toLocalIterator(prefetchPartitions=True))
        while (row := self._run(lambda: next(rows, None))) is not None:
            yield tuple(_in_utc(row, self._frame.schema) if instants else row)

    def show(self, limit: int = 20) -> None:
        """Print the first rows as a table."""
        from rich.console import Console

        from laminar.tables import RowsTable

        rows = self.head(limit + 1)
        console = Console()
        console.print(RowsTable(self.columns, rows[:limit]), crop=False)
        if len(rows) > limit:
            console.print(f"... more than {limit} rows")

    def _collect(self, frame: DataFrame) -> list[Row]:
        rows = self._run(frame.collect)
        if not _holds_instants(frame.schema):
            return rows
        return [_in_utc(row, frame.schema) for row in rows]

    def _run(self, form: Callable[[], _T]) -> _T:
        try:
            return form()
        except SPARK_FAILS as error:
            raise explain_refusal(error, self._shapes) from None


def _holds_instants(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_holds_instants(field.dataType) for field in kind.fields)
        case ArrayType():
            return _holds_instants(kind.elementType)
        case MapType():
            return _holds_instants(kind.keyType) or _holds_instants(kind.valueType)
    return isinstance(kind, TimestampType)


def _in_utc(value: Any, kind: DataType) -> Any:
    """Return a collected value with its instants in UTC: Spark gives them in the local zone."""
    if value is None:
        return None
    match kind:
        case TimestampType():
            assert isinstance(value, datetime)
            return value.astimezone(UTC).replace(tzinfo=None)
        case StructType():
            parts = zip(value, kind.fields, strict=True)
            made = Row(*(_in_utc(part, field.dataType) for part, field in parts))
            made.__fields__ = value.__fields__
            return made
        case ArrayType():
            return [_in_utc(part, kind.elementType) for part in value]
        case MapType():
            return {
                _in_utc(key, kind.keyType): _in_utc(part, kind.valueType)
                for key, part in value.items()
            }
    return value
