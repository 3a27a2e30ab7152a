"""The answer to a query, in the form the caller likes best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from laminar.errors import ReadTooLate
from laminar.runtime.spark.error_translation import SPARK_FAILS, explain_refusal, is_gone

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from laminar.delta.program import Shape

_T = TypeVar("_T")

_TRIES = 3
"""How often a query is run on epochs that are removed while it runs."""


class Result:
    """Rows of one consistent epoch. Nothing is computed until one of the forms is asked for.

    As in rows that are handed in, a Python time without a zone is in UTC, on every machine.
    """

    def __init__(
        self,
        frame: DataFrame,
        epoch: int,
        shapes: Mapping[str, Shape] | None = None,
        again: Callable[[], tuple[DataFrame, int]] | None = None,
    ) -> None:
        self._frame = frame
        self._shapes = shapes or {}
        self._again = again
        self.epoch = epoch
        self.columns: list[str] = list(frame.columns)

    def spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""
        return self._frame

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._run(lambda frame: frame.toArrow())

    def pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        with warnings.catch_warnings():
            # A query that fails is warned about at length, and then raised as well.
            warnings.filterwarnings("ignore", "toPandas attempted Arrow", UserWarning)
            return self._run(lambda frame: frame.toPandas())

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples; instants are in UTC."""
        return [tuple(row) for row in self._collect(lambda frame: frame)]

    def dicts(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries, nested ones too; instants are in UTC."""
        return [row.asDict(recursive=True) for row in self._collect(lambda frame: frame)]

    def head(self, limit: int) -> list[tuple[Any, ...]]:
        """Return the first rows as tuples."""
        return [tuple(row) for row in self._collect(lambda frame: frame.limit(limit))]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as tuples, without ever holding all of them."""
        instants = _holds_instants(self._frame.schema)

        def begun(frame: DataFrame) -> tuple[Iterator[Row], Row | None]:
            found = frame.toLocalIterator(prefetchPartitions=True)
            return found, next(found, None)

        # Up to the first row it can still begin again, on a newer epoch.
        rows, row = self._run(begun)
        while row is not None:
            yield tuple(_in_utc(row, self._frame.schema) if instants else row)
            row = self._run(lambda _: next(rows, None), may_repeat=False)

    def show(self, limit: int = 20) -> None:
        """Print the first rows as a table."""
        from rich.console import Console

        from laminar.text_table import RowsTable

        rows = self.head(limit + 1)
        console = Console()
        console.print(RowsTable(self.columns, rows[:limit]), crop=False)
        if len(rows) > limit:
            console.print(f"... more than {limit} rows")

    def _collect(self, part: Callable[[DataFrame], DataFrame]) -> list[Row]:
        rows = self._run(lambda frame: part(frame).collect())
        schema = self._frame.schema
        return [_in_utc(row, schema) for row in rows] if _holds_instants(schema) else rows

    def _run(self, form: Callable[[DataFrame], _T], *, may_repeat: bool = True) -> _T:
        """Run; if files of the epoch were removed meanwhile, run once more on a newer one."""
        for _ in range(_TRIES):
            try:
                return form(self._frame)
            except SPARK_FAILS as error:
                if not is_gone(error):
                    raise explain_refusal(error, self._shapes) from None
                if self._again is None or not may_repeat:
                    break
                self._frame, self.epoch = self._again()
        raise ReadTooLate(self.epoch)


class Changes(Sequence[dict[str, Any]]):
    """What one epoch changed: a sequence of dictionaries with the columns and `__weight`.

    A weight of 2 says that the row came twice, -1 that it went once.
    """

    def __init__(self, result: Result) -> None:
        self._result = result
        self._rows: list[dict[str, Any]] | None = None
        self.epoch = result.epoch
        self.columns = result.columns

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries; they are fetched once."""
        if self._rows is None:
            self._rows = self._result.dicts()
        return self._rows

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples; the weight is the last value."""
        return [tuple(row.values()) for row in self.dicts()]

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._result.arrow()

    def pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        return self._result.pandas()

    def spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame; for a change that is too large to collect."""
        return self._result.spark()

    def __len__(self) -> int:
        """Return how many rows there are, whatever they weigh."""
        return len(self.dicts())

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row, or several, as dictionaries."""
        return self.dicts()[index]

    def __eq__(self, other: object) -> bool:
        """Compare the rows, in their order, with any sequence of dictionaries."""
        return isinstance(other, Sequence) and self.dicts() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Changes(epoch={self.epoch}, {self.dicts()!r})"


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
