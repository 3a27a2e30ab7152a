"""The way in of one table, as epochs see it, and what all ways in share: the ledger, the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from laminar.bridge import BridgeCounters, PipelineBridge
from laminar.checkpoint.in_flight import InFlight
from laminar.connectors.source import Source
from laminar.model.row_counts import Skipped
from laminar.model.trace import Manifest
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.ingest.connector_thread import ConnectorThread
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.ingest.read_range import ReadRange
from laminar.runtime.spark.workspace import Workspace
from laminar.store import PendingLog, Range, SegmentStore


class Turn(Protocol):
    """The writer's turn, as ways in see it."""

    def __call__(self, what: str, /) -> AbstractContextManager[None]:
        """Keep others from moving to another epoch meanwhile."""
        ...

    @property
    def is_inside(self) -> bool:
        """Whether an epoch waits for the caller, who therefore must not wait for one."""
        ...

    def inside(self, node: str, /) -> AbstractContextManager[None]:
        """Note that an epoch may wait for the caller."""
        ...

    @property
    def patience(self) -> float:
        """So many seconds a writer waits for another."""
        ...


class Positions(Protocol):
    """The ledger, as ways in see it."""

    @property
    def turn(self) -> Turn:
        """Whoever moves to another epoch has it."""
        ...

    @property
    def manifest(self) -> Manifest:
        """What was committed last."""
        ...

    @property
    def pending(self) -> PendingLog:
        """Rows that were pushed."""
        ...

    @property
    def in_flight(self) -> InFlight:
        """Rows that a checkpoint kept of epochs in flight."""
        ...


@dataclass(frozen=True, slots=True)
class InletContext:
    """What all inlets of an engine share."""

    store: SegmentStore
    """Writes segments; its root is the folder of the database."""
    workspace: Callable[[int], Workspace]
    """Epoch -> where Spark reads what Arrow cannot."""
    pruning: SourcePruning
    settings: TimeSettings
    clock: Callable[[], float]
    """Seconds."""
    wake: Callable[[], None]
    """Called when there is something for an epoch."""
    is_gated: Callable[[str], bool]
    """Whether a source is too far ahead of others to be read now."""
    is_running: Callable[[], bool]
    """Whether epochs follow each other by themselves, so that polling does, too."""
    inside: Callable[[str], AbstractContextManager[None]]
    """Marks a connector's code: an epoch may wait for it, so it must not wait for one."""
    thread: Callable[[TableDefinition, Source], ConnectorThread]
    """Connector of a table -> where its code runs."""
    on_hung: Callable[[str, Exception], object] = lambda _name, _error: None
    """Told of a connector that does not return while the loop polls it."""


class Inlet(Protocol):
    """Rows of one table, from whoever has them to the epochs.

    Law: `cut` returns ranges that follow each other, and `take` exactly the rows of one; only what
    `DropNewest` let go lies between two of them.
    """

    @property
    def definition(self) -> TableDefinition:
        """The table."""
        ...

    @property
    def source(self) -> Source | None:
        """What is polled; None if rows are pushed."""
        ...

    @property
    def options(self) -> InletOptions:
        """What the table says of its bridge."""
        ...

    @property
    def bridge(self) -> PipelineBridge:
        """What its rows pass now; a restart makes another one."""
        ...

    @property
    def error(self) -> Exception | None:
        """What the last poll in the background failed with."""
        ...

    @property
    def consumed(self) -> Any:
        """Where the last range ended that an epoch took; None if it took none."""
        ...

    @property
    def deadline(self) -> float | None:
        """When the open batch will be old enough."""
        ...

    @property
    def counters(self) -> BridgeCounters:
        """What went through since it was opened, over all its bridges."""
        ...

    def begin(self, *, ahead: bool) -> None:
        """Start reading what is next, unless something is there or on its way.

        Args:
            ahead: of an epoch that is not asked for yet; it will look again if this finds nothing.
        """
        ...

    def pump(self) -> None:
        """Keep polling in the background while there is room; called again and again."""
        ...

    def say(self, watermark: int) -> None:
        """Send a watermark behind all rows that came in so far."""
        ...

    def cut(self, epoch: int, *, whole: bool, until: int | None = None) -> Range | None:
        """Return the range that an epoch may take; None if there is none.

        Args:
            epoch: the epoch to be.
            whole: all that is there now, whatever the policy says.
            until: stop at a watermark as high as this.
        """
        ...

    def take(self, taken: Range, epoch: int, now_ms: int) -> ReadRange:
        """Hand over a range; one that no `cut` has returned, as in a replay, is read now.

        Args:
            taken: the range.
            epoch: the epoch that takes it.
            now_ms: the wall clock that the epoch goes by.
        """
        ...

    def skipped(self, taken: Range) -> Skipped | None:
        """Return what was let go right before a range that `cut` has returned; asked once."""
        ...

    def committed(self, end: Any) -> None:
        """Forget what an epoch has taken, now that it is committed."""
        ...

    def restart(self, position: Any, epoch: int) -> None:
        """Go on from a committed position: an epoch has failed, or another one was restored."""
        ...

    def close(self) -> None:
        """Take no more; what was not committed comes in again another time."""
        ...
