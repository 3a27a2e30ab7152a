"""The answer to a query, in the form the caller likes best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame


class Result:
    """Rows of one consistent epoch. Nothing is computed until one of the forms is asked for."""

    def __init__(self, frame: DataFrame, epoch: int) -> None:
        self._frame = frame
        self.epoch = epoch
        self.columns: list[str] = list(frame.columns)

    def spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""
        return self._frame

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._frame.toArrow()

    def pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        return self._frame.toPandas()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        return [tuple(row) for row in self._frame.collect()]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        return [row.asDict(recursive=True) for row in self._frame.collect()]

    def show(self, limit: int = 20) -> None:
        """Print the first rows as a table."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*[str(name) for name in self.columns])
        rows = self._frame.limit(limit + 1).collect()
        for row in rows[:limit]:
            table.add_row(*(Text(str(value)) for value in row))
        console = Console()
        console.print(table)
        if len(rows) > limit:
            console.print(f"... more than {limit} rows")
