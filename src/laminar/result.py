"""The answer to a query, in the form the caller likes best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from laminar.errors import ReadTooLate
from laminar.model.quoting import backquoted, string_literal
from laminar.model.sql_time import as_utc
from laminar.runtime.spark.error_translation import SPARK_FAILS, explain_refusal, is_gone
from laminar.store.collect import collect
from laminar.store.months import as_numbers, has_months
from laminar.store.variants import has_variants

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from laminar.delta.program import Shape

_T = TypeVar("_T")

_TRIES = 3
"""How often a query is run on epochs that are removed while it runs."""


class Sparks(Protocol):
    """The Spark of a database, in whose place there may be another one by now."""

    @property
    def generation(self) -> int:
        """How many there were before this one."""
        ...

    def have_spark(self) -> None:
        """Have one that is there; raise if there is none."""
        ...

    def calls(self) -> AbstractContextManager[None]:
        """Let what a lost one makes of a call come out as one error."""
        ...


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
        spark: Sparks | None = None,
    ) -> None:
        self._spark = spark
        self._born = None if spark is None else spark.generation
        self._frame = frame
        self._shapes = shapes or {}
        self._again = again
        self.epoch = epoch
        self.columns: list[str] = list(frame.columns)

    def spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""
        self._be_there()
        return self._frame

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; instants have the zone of the database."""
        return self._run(_arrow)

    def pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; instants are in UTC."""
        with warnings.catch_warnings():
            # A query that fails is warned about at length, and then raised as well.
            warnings.filterwarnings("ignore", "toPandas attempted Arrow", UserWarning)
            return self._run(lambda frame: _plain(frame).toPandas())

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

        def begun(frame: DataFrame) -> tuple[Iterator[Row], Row | None]:
            found = _plain(frame).toLocalIterator(prefetchPartitions=True)
            return found, next(found, None)

        # Up to the first row it can still begin again, on a newer epoch.
        rows, row = self._run(begun)
        while row is not None:
            yield tuple(row)
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
        return self._run(lambda frame: _plain(part(frame)).collect())

    def _be_there(self) -> None:
        """Have a frame of the Spark that is there now."""
        if self._spark is not None:
            self._spark.have_spark()
            if self._born != self._spark.generation and self._again is not None:
                self._frame, self.epoch = self._again()
                self._born = self._spark.generation

    def _run(self, form: Callable[[DataFrame], _T], *, may_repeat: bool = True) -> _T:
        """Run, on the Spark that is there."""
        if self._spark is None:
            return self._ran(form, may_repeat=may_repeat)
        with self._spark.calls():
            if may_repeat:
                self._be_there()
            return self._ran(form, may_repeat=may_repeat)

    def _ran(self, form: Callable[[DataFrame], _T], *, may_repeat: bool) -> _T:
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


def _arrow(frame: DataFrame) -> pa.Table:
    if not any(has_variants(field.dataType) for field in frame.schema.fields):
        return _in_numbers(frame).toArrow()
    found = collect(_numbered(frame))
    return frame.toArrow() if found is None else found.rename_columns(frame.columns)


def _plain(frame: DataFrame) -> DataFrame:
    """Return the same rows in types that PySpark collects."""
    return _in_utc(_in_numbers(frame))


def _in_numbers(frame: DataFrame) -> DataFrame:
    """Return the same rows with a number of months for each interval of them."""
    if not any(has_months(field.dataType) for field in frame.schema.fields):
        return frame
    return as_numbers(_numbered(frame)).toDF(*frame.columns)


def _numbered(frame: DataFrame) -> DataFrame:
    """Return the frame with other names for its columns: those of the query may repeat."""
    return frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))


def _holds_instants(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_holds_instants(field.dataType) for field in kind.fields)
        case ArrayType():
            return _holds_instants(kind.elementType)
        case MapType():
            return _holds_instants(kind.keyType) or _holds_instants(kind.valueType)
    return isinstance(kind, TimestampType)


def _in_utc(frame: DataFrame) -> DataFrame:
    """Return the same rows with each instant as its time in UTC, which has no zone.

    PySpark would give instants in the zone of this process, or of the session: there some times
    come twice, and the first and last years of the calendar are not all there.
    """
    if not _holds_instants(frame.schema):
        return frame
    given = _numbered(frame)
    items = [f"{_time(each.name, each.dataType)} AS {each.name}" for each in given.schema.fields]
    return given.selectExpr(*items).toDF(*frame.columns)


def _time(value: str, kind: DataType, depth: int = 0) -> str:
    """Render a value with its instants in UTC."""
    if not _holds_instants(kind):
        return value
    each, key = f"e{depth}", f"k{depth}"
    match kind:
        case StructType():
            parts = (
                f"{string_literal(field.name)}, "
                + _time(f"{value}.{backquoted(field.name)}", field.dataType, depth)
                for field in kind.fields
            )
            return f"IF({value} IS NULL, NULL, NAMED_STRUCT({', '.join(parts)}))"
        case ArrayType():
            inner = _time(each, kind.elementType, depth + 1)
            return f"TRANSFORM({value}, {each} -> {inner})"
        case MapType():
            keys = _time(key, kind.keyType, depth + 1)
            values = _time(each, kind.valueType, depth + 1)
            found = f"TRANSFORM_VALUES({value}, ({key}, {each}) -> {values})"
            return f"TRANSFORM_KEYS({found}, ({key}, {each}) -> {keys})"
    return as_utc(value)
