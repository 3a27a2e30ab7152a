"""Keeps traces short in the background; results are adopted by the next commit.

Law: nobody needs a compaction, so one that fails fails nothing else. It is logged and counted, what
it had finished is adopted, and it is tried again later: after one commit, two, four, and so on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar.delta.change import consolidate
from laminar.delta.lateness import below
from laminar.delta.partials import merge_partials
from laminar.delta.program import Merged
from laminar.errors import SparkLost
from laminar.model.trace import Segment, Trace
from laminar.model.trace_name import is_partial, relation_of
from laminar.runtime.catalog.storage_plan import StoragePlan
from laminar.runtime.event_time.late_batch import LATE_ROWS, Cutoff
from laminar.runtime.spark.error_translation import first_sentence
from laminar.store import SegmentStore, compact, plan, stretches
from laminar.store.segments import row_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("laminar.compaction")

LONGEST_PAUSE = 64
"""So many commits, at the most, pass between two tries."""

LARGE_ROWS = 32_768
"""Segments of this size are merged rarely: reading them costs by row, not by file."""

YOUNG_EPOCHS = 32
"""Groups of partial rows from so few epochs are only put together, not merged."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Neighbours in a trace, and the one segment that holds the same."""

    trace: str
    olds: tuple[Segment, ...]
    new: Segment | None
    merges_groups: bool = False  # rows were merged, so a retraction of one would not find it


class Compactor:
    """At most one compaction runs; it reads immutable files and writes new ones."""

    def __init__(self, session: SparkSession, store: SegmentStore) -> None:
        self._session = session
        self._store = store
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="laminar-compact")
        self._running: Future[tuple[list[Compacted], Exception | None]] | None = None
        self._pause = self._in_a_row = 0
        self.failures = 0
        """How many have failed."""
        self.error: str | None = None
        """What the last one failed with; None if it did not."""
        self.fanout = 8
        self.outlast: Callable[[Callable[[float], bool]], None] = _to_its_end
        """Waits for as long as Spark lives, see `Lifeline.outlast`."""
        self._is_left = False

    def submit(
        self,
        traces: Mapping[str, Trace],
        relations: StoragePlan,
        epoch: int,
        cutoffs: Mapping[str, Cutoff] | None = None,
        cursors: Collection[int] = (),
    ) -> bool:
        """Start compacting what has grown, unless a compaction is running; say whether one is.

        Args:
            traces: what there is.
            relations: what it belongs to.
            epoch: the newest one.
            cutoffs: trace -> rows that are of no use any more, and need not be written again.
            cursors: epochs that some view stands at; what came before and after stays apart.
        """
        if self._running is not None:
            return True
        if self._pause:
            self._pause -= 1
            return False
        work = [
            (name, trace, group)
            for name, trace in traces.items()
            if name != LATE_ROWS
            for stretch in stretches(trace.segments, cursors)
            for group in plan(stretch, fanout=self._fanout(trace))
        ]
        if work:
            self._running = self._pool.submit(self._run, work, relations, epoch, cutoffs or {})
        return bool(work)

    @property
    def is_ready(self) -> bool:
        """Whether a compaction waits to be adopted."""
        return self._running is not None and self._running.done()

    def adopt(self, traces: Mapping[str, Trace], *, wait: bool = False) -> dict[str, Trace]:
        """Return the traces with finished compactions in place."""
        adopted = dict(traces)
        if self._running is None or not (wait or self._running.done()):
            return adopted
        if wait:
            self._outlast(self._running)
        done, self._running = self._running, None
        compacted, error = done.result()
        self._note(error)
        for each in compacted:
            trace = adopted.get(each.trace)
            # The relation may have been dropped or rebuilt meanwhile.
            if trace is None or not set(each.olds) <= set(trace.segments):
                continue
            # A retraction that came in meanwhile names a partial row that was merged away.
            if each.merges_groups and not trace.insert_only:
                continue
            adopted[each.trace] = trace.replace(each.olds, each.new)
        return adopted

    def _note(self, error: Exception | None) -> None:
        """Remember how the last one went; after failures the next one waits longer."""
        if error is None:
            self._in_a_row, self.error = 0, None
            return
        self._pause = min(LONGEST_PAUSE, 2**self._in_a_row)
        self._in_a_row += 1
        self.failures += 1
        self.error = first_sentence(error)
        _LOG.warning("a compaction failed, %d commits go by: %s", self._pause, self.error)

    def _run(
        self,
        work: list[tuple[str, Trace, tuple[Segment, ...]]],
        relations: StoragePlan,
        epoch: int,
        cutoffs: Mapping[str, Cutoff],
    ) -> tuple[list[Compacted], Exception | None]:
        """Return what is done, and what went wrong then, if anything did."""
        done: list[Compacted] = []
        try:
            for name, trace, group in work:
                rule = self._rule(name, trace, group, relations, cutoffs.get(name))
                new = compact(self._store, name, epoch, trace.schema, group, rule)
                merged = is_partial(name) and trace.insert_only and rule is not None
                done.append(Compacted(name, group, new, merged))
        except Exception as error:
            return done, error
        return done, None

    def _rule(
        self,
        name: str,
        trace: Trace,
        group: tuple[Segment, ...],
        relations: StoragePlan,
        cutoff: Cutoff | None,
    ) -> Callable[[DataFrame], DataFrame] | None:
        positive = all(segment.insert_only for segment in group)
        owner = relations.by_name.get(relation_of(name))
        if is_partial(name) and isinstance(owner, Merged):
            # Partial rows of a group may only be merged if none of them is retracted elsewhere:
            # a retraction names the row it takes back.
            if not positive or not trace.insert_only:
                return self._over(lambda rows: consolidate(_useful(rows, cutoff), owner.partials))
            if _is_young(group):
                return None
            units = all(segment.units for segment in group)
            return self._over(
                lambda rows: merge_partials(
                    owner, _useful(rows, cutoff), positive=True, units=units
                )
            )
        if positive:
            return None if cutoff is None else self._over(lambda rows: _useful(rows, cutoff))
        row = row_type(self._store.struct(trace.schema))
        return self._over(lambda rows: consolidate(_useful(rows, cutoff), row))

    def _over(self, rule: Callable[[str], str]) -> Callable[[DataFrame], DataFrame]:
        def apply(frame: DataFrame) -> DataFrame:
            frame.createOrReplaceTempView("compacting")
            return self._session.sql(rule("SELECT * FROM compacting"))

        return apply

    def _fanout(self, trace: Trace) -> int:
        large = sum(segment.rows >= LARGE_ROWS for segment in trace.segments)
        return self.fanout * (8 if trace.insert_only and large * 2 > len(trace.segments) else 1)

    def close(self) -> None:
        """Wait for the running compaction, as long as Spark lives, and end the thread."""
        with suppress(SparkLost):
            if self._running is not None:
                self._outlast(self._running)
        self._pool.shutdown(wait=not self._is_left)

    def _outlast(self, running: Future[tuple[list[Compacted], Exception | None]]) -> None:
        try:
            self.outlast(lambda seconds: bool(wait_for([running], seconds).done))
        except SparkLost:
            self._is_left = True
            raise


def _to_its_end(is_over: Callable[[float], bool]) -> None:
    while not is_over(1.0):
        pass


def _is_young(group: tuple[Segment, ...]) -> bool:
    """Whether to put segments together without merging their groups: that needs no Spark."""
    rows = sum(segment.rows for segment in group)
    return group[-1].hi - group[0].lo < YOUNG_EPOCHS and rows < LARGE_ROWS


def _useful(rows: str, cutoff: Cutoff | None) -> str:
    if cutoff is None:
        return rows
    return f"SELECT * FROM ({rows}) WHERE NOT ({below(*cutoff)})"
