"""The producer's side of an inlet: ranges of a source, in order, into its bridge."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laminar.bridge import PipelineBridge
from laminar.bridge.spill import SpillFile, Step
from laminar.connectors.source import Source
from laminar.errors import Backpressure
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.batch_writer import BatchWriter, Stored
from laminar.runtime.ingest.range_reader import RangeReader, ReadRange
from laminar.store import Range, discard


@dataclass(frozen=True, slots=True)
class InletContext:
    """Where an inlet is: what all inlets of an engine share."""

    ingest: RangeReader
    root: Path
    clock: Callable[[], float]
    """Seconds."""
    wake: Callable[[], None]
    """Called when there is something for an epoch."""
    is_gated: Callable[[str], bool]
    """Whether a source is too far ahead of others to be read now."""
    is_running: Callable[[], bool]
    """Whether epochs follow each other by themselves, so that polling does, too."""
    inside: Callable[[str], AbstractContextManager[None]] = lambda _name: nullcontext()
    """Marks a connector's code: an epoch may wait for it, so it must not wait for one."""


class Polling:
    """Reads one range after another, and sends each through the bridge.

    Law: every range is sent whole and once, in order. One that did not fit is kept and sent later,
    and is not read again.

    Args:
        definition: the table.
        source: what is read.
        site: where it is read.
        bridge: where ranges go.
        forming: the other side, which numbers what is read.
        sending: held while something goes into the bridge, never while the source is asked.
        position: where the last range ended.
        way: what an earlier process has spilled, and what it had in memory before.
    """

    def __init__(
        self,
        definition: TableDefinition,
        source: Source,
        site: InletContext,
        bridge: PipelineBridge,
        forming: BatchWriter,
        sending: AbstractContextManager[object],
        position: Any,
        way: Iterable[Step | SpillFile],
    ) -> None:
        self._definition = definition
        self._source = source
        self._site = site
        self._bridge = bridge
        self._forming = forming
        self._sending = sending
        self._position = position
        self._way = deque(way)
        self._unsent: tuple[Any, Range, dict[str, int]] | None = None
        self._is_alone = False  # Spark numbers rows as it reads them: none may wait before them

    def may_poll(self) -> bool:
        """Whether there is room; a source that waits is told so, and resumes by itself."""
        if (
            self._site.is_gated(self._definition.name)
            or not self._bridge.has_capacity()
            or (self._is_alone and self._forming.has_rows())
        ):
            self._bridge.pause()
            return False
        return True

    def poll(self) -> bool:
        """Send the next range through the bridge; False if there is none, or no room."""
        if not self.may_poll():
            return False
        if self._unsent is not None:
            return self._send(*self._unsent)
        if self._way:
            return self._follow()
        end = self._source.latest_offset(self._position)
        if end is None:
            return False
        return self._read(Range(self._definition.name, self._position, end))

    def _follow(self) -> bool:
        """Go on along what was spilled before a restart."""
        step = self._way[0]
        if not isinstance(step, SpillFile):
            sent = self._read(Range(self._definition.name, step.start, step.end))
            if sent:
                self._way.popleft()
            return sent
        while self._way and isinstance(file := self._way[0], SpillFile):
            self._way.popleft()
            with self._sending:
                self._bridge.adopt(file)
            self._position = file.step.end
        return True

    def _read(self, taken: Range) -> bool:
        ingest, now = self._site.ingest, self._site.ingest.now()
        found = ingest.load(taken, self._definition, self._forming.number, now)
        was_alone, self._is_alone = not self._forming.has_rows(), isinstance(found, ReadRange)
        if isinstance(found, ReadRange):
            if not was_alone:
                discard(self._site.root, () if found.segment is None else found.segment.files)
                return False
            return self._send(Stored(found), taken, dict(found.largest))
        marks = ingest.marks(self._definition, found, now)  # of all rows, wanted or not
        return self._send(ingest.kept(self._definition, found), taken, marks)

    def _send(self, rows: Any, taken: Range, marks: dict[str, int]) -> bool:
        high = max(marks.values(), default=None)
        try:
            with self._sending:
                self._bridge.send_batch(
                    rows, event_time=high, start=taken.start, end=taken.end, note=marks
                )
        except Backpressure:
            self._unsent = (rows, taken, marks)
            return False
        self._unsent = None
        self._position = taken.end
        return True
