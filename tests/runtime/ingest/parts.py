"""The parts of an intake, as an engine has them, without one and without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from laminar.bridge import BatchPolicy
from laminar.checkpoint.in_flight import InFlight
from laminar.delta.program import Shape
from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.runtime.catalog.catalog import Catalog, Defined
from laminar.runtime.catalog.definitions import TableDefinition, ViewDefinition
from laminar.runtime.catalog.settings import Settings, TimeSettings
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.history.turn import WriterTurn
from laminar.runtime.ingest.arriving_rows import numbered
from laminar.runtime.ingest.connector_thread import ConnectorThread
from laminar.runtime.ingest.inlet import InletContext
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.ingest.read_range import ReadRange
from laminar.runtime.spark.workspace import Workspace
from laminar.store import PendingLog, SegmentStore
from laminar.testing import FixedTyper, ManualClock

START = datetime(2024, 1, 1)
NUMBERS = TableDefinition("s", (("n", "bigint", True),), is_source=True, connector="numbers")
TIMED = TableDefinition(
    "s",
    (("n", "bigint", True), ("ts", "timestamp", True)),
    is_source=True,
    connector="numbers",
    event_time="ts",
)


def numbers(start: int, end: int) -> pa.Table:
    return pa.table({"n": pa.array(range(start, end), pa.int64())})


def at_seconds(*seconds: int | None, **more: list[Any]) -> pa.Table:
    """Rows 0, 1, 2, ... of which each has a time, so many seconds after 1970."""
    times = [None if each is None else each * 1_000_000 for each in seconds]
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"n": pa.array(range(len(seconds)), pa.int64()), "ts": stamps, **more})


@dataclass
class SparkNumbers:
    """A source of rows 0, 1, 2, ... in polls of a few, that only Spark can read."""

    total: int = 0
    poll: int = 10
    polled: int = 0
    broken: bool = False
    answers: threading.Event = field(default_factory=threading.Event)
    append_only: bool = True
    live: bool = False
    rows: Callable[[int, int], pa.Table] = numbers

    def __post_init__(self) -> None:
        self.answers.set()

    def latest_offset(self, start: Any) -> Any:
        self.answers.wait(10)
        self.polled += 1
        if self.broken:
            raise OSError("the disk is gone")
        end = min((start or 0) + self.poll, self.total)
        return end if end > (start or 0) else None

    def read(self, _spark: Any, start: Any, end: Any) -> Any:
        return ArrowFrame(self.rows(start or 0, end))


class Numbers(SparkNumbers):
    """The same, for small batches without Spark."""

    def read(self, *_: Any) -> Any:
        raise AssertionError("Arrow reads it")

    def read_arrow(self, start: Any, end: Any) -> pa.Table | None:
        return self.rows(start or 0, end)


@dataclass
class ArrowFrame:
    """Rows in the place of a frame of Spark."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def selectExpr(self, *_: str) -> ArrowFrame:  # noqa: N802
        return self


class FrameStore(SegmentStore):
    """Writes such rows as Spark writes frames, and notes the epochs they were numbered for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.numbers: list[int] = []

    def write_frame(self, relation: str, epoch: int, df: Any, times: Any = ()) -> Any:
        self.numbers.append(epoch)
        return self.write_arrow(relation, epoch, numbered(df.table, epoch), times)


class BusyStore(SegmentStore):
    """While it writes, something else happens."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def write_arrow(self, relation: str, epoch: int, table: pa.Table, times: Any = ()) -> Any:
        segment = super().write_arrow(relation, epoch, table, times)
        self.meanwhile()
        return segment


class Typer(FixedTyper):
    """Knows what columns queries over the tables here have; all of them are whole numbers."""

    def declare(self, shape: Shape, *, numbered: bool = False) -> None:  # noqa: ARG002 - all alike
        self.declared.append(shape)

    def of_query(self, sql: str) -> list[tuple[str, str]]:
        relations = {shape.name: shape.columns for shape in self.declared}
        return [(name, "bigint") for name in lower(parse_query(sql), relations, self).names]


def defined(*tables: TableDefinition, views: Mapping[str, str] | None = None) -> Defined:
    """Definitions of a database, compiled with types of our own."""
    settings = TimeSettings(clock=ManualClock(START))
    made = Defined(Catalog(cast("Any", Typer())), Settings(None), settings)
    for each in tables:
        made.catalog.add_table(each)
    for name, query in (views or {}).items():
        add_view(made, name, query)
    return made


def add_view(to: Defined, name: str, query: str) -> None:
    view = ViewDefinition(name, query)
    to.catalog.add_view(view, to.catalog.compile(view))


@dataclass
class Books:
    """What is committed, and what waits: the ledger, as the bridges see it."""

    pending: PendingLog
    in_flight: InFlight
    offsets: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0
    turn: WriterTurn = field(default_factory=lambda: WriterTurn(Path()))

    @classmethod
    def at(cls, root: Path, pending: PendingLog | None = None) -> Books:
        return cls(pending or PendingLog(root), InFlight(root, 0))

    @property
    def manifest(self) -> Manifest:
        return Manifest(self.epoch, {}, self.offsets, (), {}, EngineState(), "")


def no_spark(_epoch: int) -> Workspace:
    raise AssertionError("there is no Spark here")


def workspace(store: SegmentStore) -> Workspace:
    return Workspace(cast("Any", None), store, cast("Any", None))


def context(
    root: Path, of: Defined | None = None, store: SegmentStore | None = None, **given: Any
) -> InletContext:
    """What inlets share: a real store, and a clock that stands still."""
    known = of or defined(NUMBERS)
    named: dict[str, Any] = {
        "store": store or SegmentStore(root),
        "workspace": no_spark,
        "pruning": SourcePruning(known, dict),
        "settings": known.time_settings,
        "clock": lambda: 0.0,
        "wake": lambda: None,
        "is_gated": lambda _name: False,
        "is_running": lambda: False,
        **given,
    }
    named.setdefault("thread", lambda table, _source: ConnectorThread(table.name, 10.0))
    named.setdefault("inside", lambda _name: nullcontext())
    return InletContext(**named)


def options(**given: Any) -> InletOptions:
    return InletOptions(**{"policy": BatchPolicy(max_rows=10), "buffer_rows": 30, **given})


def stored(store: SegmentStore, taken: ReadRange | None) -> pa.Table:
    """Read back the rows of a range, from the files of its segment."""
    assert taken is not None
    assert taken.segment is not None
    store.verify(taken.segment)
    return pa.concat_tables(pq.read_table(store.root / name) for name in taken.segment.files)


def values(store: SegmentStore, taken: ReadRange | None, column: str = "n") -> list[Any]:
    found: list[Any] = stored(store, taken)[column].to_pylist()
    return found


def data_files(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("data/*/*.parquet"))
