"""Rows of tables over three epochs, and answers as bags that can be compared."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from laminar.model.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST = 300
"""Rows of a table that are used: comparing tells as much as with all of them."""

TOGETHER = 8
"""Queries that run as one job."""


@dataclass(frozen=True)
class Table:
    """A relation of a test file: its columns and its rows."""

    name: str
    schema: StructType
    rows: pa.Table

    @classmethod
    def of(cls, session: SparkSession, name: str) -> Table:
        """Take the rows that Spark has."""
        frame = session.table(backquoted(name)).limit(MOST)
        for column, kind in frame.dtypes:
            if kind == "void":  # no table holds one
                frame = frame.withColumn(column, frame[column].cast("string"))
        return cls(name, frame.schema, frame.toArrow())

    def ddl(self) -> str:
        """Return the columns as CREATE TABLE takes them."""
        return ", ".join(
            f"{backquoted(each.name)} {each.dataType.simpleString()}" for each in self.schema
        )

    def take(self, places: Sequence[int]) -> pa.Table:
        """Return the rows at some places."""
        return self.rows.take(pa.array(places, pa.int64()))


@dataclass(frozen=True)
class Change:
    """What an epoch does to a table, and what is there then."""

    inserted: list[int]
    deleted: list[int]
    present: list[int]


def epochs(count: int) -> Iterator[Change]:
    """Say which of so many rows come and go in three epochs; in the end all are there."""
    first = [at for at in range(count) if at % 5 != 4]
    gone = [at for at in first if at % 3 == 0]
    late = [at for at in range(count) if at % 5 == 4]
    kept = sorted(set(first) - set(gone))
    yield Change(first, [], first)
    yield Change(late, gone, [*kept, *late])
    yield Change(gone, [], [*kept, *late, *gone])


Answer = Counter[str]


def rendered(frame: DataFrame) -> DataFrame:
    """Return each row as one string in which every bit of it shows, NULL apart from 'null'."""
    names = [f"c{at}" for at in range(len(frame.columns))]
    row = f"CAST(STRUCT({', '.join(names)}) AS STRING)" if names else "''"
    nulls = [f"INT({name} IS NULL)" for name in names]
    return frame.toDF(*names).selectExpr(f"CONCAT({', '.join([row, *nulls])}) AS row")


def answers(frames: dict[str, DataFrame]) -> dict[str, Answer | Exception]:
    """Run queries, several as one job; a query that fails answers with its error."""
    found: dict[str, Answer | Exception] = {}
    names = list(frames)
    for at in range(0, len(names), TOGETHER):
        some = {name: frames[name] for name in names[at : at + TOGETHER]}
        try:
            found |= _together(some)
        except Exception:
            for name, frame in some.items():
                found[name] = _alone(name, frame)
    return found


def _together(frames: dict[str, DataFrame]) -> dict[str, Answer | Exception]:
    parts = [
        rendered(frame).selectExpr(f"{at} AS of", "row") for at, frame in enumerate(frames.values())
    ]
    names = list(frames)
    found: dict[str, Answer | Exception] = {name: Counter() for name in names}
    for of, row in reduce(lambda a, b: a.unionAll(b), parts).collect():
        answer = found[names[of]]
        assert isinstance(answer, Counter)
        answer[row] += 1
    return found


def _alone(name: str, frame: DataFrame) -> Answer | Exception:
    try:
        return _together({name: frame})[name]
    except Exception as error:
        return error


_NUMBER = re.compile(r"-?\d+\.\d+(?:E-?\d+)?|-?\d+E-?\d+")


def nearly(left: Answer, right: Answer) -> bool:
    """Whether answers differ in nothing but the last digits of numbers with a fraction."""

    def rough(answer: Answer) -> list[tuple[str, list[float]]]:
        return sorted(
            (_NUMBER.sub("#", row), [float(each) for each in _NUMBER.findall(row)])
            for row in answer.elements()
        )

    a, b = rough(left), rough(right)
    return [text for text, _ in a] == [text for text, _ in b] and all(
        math.isclose(m, n, rel_tol=1e-6, abs_tol=1e-9)
        for (_, ours), (_, theirs) in zip(a, b, strict=True)
        for m, n in zip(ours, theirs, strict=True)
    )


def spelled(answer: Answer) -> list[str]:
    """Return rows without case and blanks, which collations pass over."""
    return sorted(re.sub(r"\s", "", row).lower() for row in answer.elements())


def sorted_inside(left: Answer, right: Answer) -> bool:
    """Whether answers have the same letters row by row: lists in another order."""

    def letters(answer: Answer) -> list[str]:
        return sorted("".join(sorted(row)) for row in answer.elements())

    return letters(left) == letters(right)
