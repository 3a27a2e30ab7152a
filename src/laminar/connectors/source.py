"""What a source is to the engine: offsets, and rows between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from laminar.errors.connectors import SourceError, SourceReadFailed
from laminar.errors.sentences import first_sentence

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

Offset: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json]"
"""How far a source has been read, as a JSON value that only the source understands.

`None` in the place of an offset is the beginning.
"""


@runtime_checkable
class Source(Protocol):
    """Rows that can be read again.

    Law: `read(s, e)` is a function of `(s, e)`, today and after a restart, and
    `read(s, m) + read(m, e) = read(s, e)` as bags. Rows have exactly the declared columns, in
    their order. A source that is read in parts may add a column `__partition` that names the part
    of each row: its watermark is then the least of theirs.

    A row read is a row inserted, unless the source says `append_only = False`. Then it may add a
    column `__weight` of whole numbers: a row of weight 1 comes, one of -1 goes. Without a primary
    key a row that goes is the same as one that came; an update is two rows, what was and what is.
    With a key the last row of each key in a range counts, and of one that goes only the key does.

    It is called by one thread at a time, and each call has to return in time: see `call_timeout`.
    """

    @property
    def append_only(self) -> bool:
        """Whether rows, once delivered, are never taken back; if not, they come with weights."""
        ...

    def latest_offset(self, start: Offset | None) -> Offset | None:
        """Return where a batch that begins at `start` may end; None if there is nothing new.

        `start` is the end of the last committed batch. A source may stop short of everything it
        has, to keep a batch small. `start` itself is nothing new; a number before it is refused.
        """
        ...

    def read(self, spark: SparkSession, start: Offset | None, end: Offset) -> DataFrame:
        """Return the rows after `start`, up to and including `end`."""
        ...


@runtime_checkable
class ArrowSource(Source, Protocol):
    """A source that can also read a small batch without Spark, straight into Arrow."""

    def read_arrow(self, start: Offset | None, end: Offset) -> pa.Table | None:
        """Return the same rows as `read`; None means: use `read` for this range."""
        ...


@runtime_checkable
class RefusingSource(Source, Protocol):
    """A source that leaves out rows which do not fit, because its options ask for that."""

    def refused(self, start: Offset | None, end: Offset) -> int:
        """Return how many rows of a range it has left out; asked right after it was read."""
        ...


@runtime_checkable
class LiveSource(Source, Protocol):
    """A source of what happens now: a row far ahead of the wall clock is a mistake."""

    @property
    def live(self) -> bool:
        """False if its rows may be of any time after all, as its options say."""
        ...


@runtime_checkable
class ExplainingSource(Source, Protocol):
    """A source that can say why reading a range failed, once it has."""

    def explain(self, spark: SparkSession, start: Offset | None, end: Offset) -> SourceError | None:
        """Return what is wrong with the rows of the range; None if nothing is."""
        ...


@runtime_checkable
class AcknowledgedSource(Source, Protocol):
    """A source that wants to hear how far it was read for good, such as a queue."""

    def acknowledge(self, end: Offset) -> object:
        """Hear that all rows up to `end` are durable in the database.

        It is called after the epoch that took them is committed, with no lock and no turn, one
        call at a time, never with less than before. What it raises fails no epoch: it is called
        again after the next one, and after a restart with what was committed last.
        """
        ...


@runtime_checkable
class ClosingSource(Source, Protocol):
    """A source that holds something which must be given back."""

    def close(self) -> None:
        """Give it back; called once, after the last read."""
        ...


def takes_back(source: Source) -> bool:
    """Whether rows of a source may go again: they come with weights."""
    return not getattr(source, "append_only", True)


def read_arrow(source: Source, start: Offset | None, end: Offset) -> pa.Table | None:
    """Read without Spark where the source can; None means: use `source.read`."""
    return source.read_arrow(start, end) if isinstance(source, ArrowSource) else None


def explain_failure(
    source: Source,
    name: str,
    spark: SparkSession,
    start: Offset | None,
    end: Offset,
    error: Exception,
) -> SourceError:
    """Turn an exception of Spark, raised while it read a range, into one that names the row.

    Spark reads when the rows are asked for, so only whoever asks sees it fail.
    """
    if isinstance(error, SourceError):
        return error
    found = source.explain(spark, start, end) if isinstance(source, ExplainingSource) else None
    found = found or SourceReadFailed(name, first_sentence(str(error)))
    found.__cause__ = error
    return found


def close(source: Source) -> None:
    """Close the source if it holds anything."""
    if isinstance(source, ClosingSource):
        source.close()
