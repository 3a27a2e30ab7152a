"""Everything durable about epochs: committed ones, logged ones, and rows that wait for theirs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from laminar.checkpoint.in_flight import InFlight
from laminar.checkpoint.restore import finish, numbers
from laminar.errors import ReadOnlyDatabase
from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Trace
from laminar.runtime.history.compactor import Compactor
from laminar.runtime.history.timeline import Timeline, after_commit
from laminar.runtime.history.turn import WriterTurn
from laminar.store import EpochLog, PendingLog


class Interrupts:
    """Ctrl-C comes before a commit or behind it, never inside.

    Between the moment at which a manifest has its name and the one at which memory says the same,
    an exception would make us take back what is committed. Only the main thread hears of it, so
    others have nothing to do here.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._is_held = self._has_come = False

    @contextmanager
    def until_done(self) -> Iterator[None]:
        """Let what a commit inside holds back come when all that follows from it is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._is_held and not self._depth:
                self._let_go()

    def hold(self) -> None:
        """Let nothing come from now on, if this is within `until_done`."""
        handler = signal.getsignal(signal.SIGINT)
        is_ours = threading.current_thread() is threading.main_thread() and self._depth
        if is_ours and not self._is_held and callable(handler):
            self._before = handler
            self._is_held, self._has_come = True, False
            signal.signal(signal.SIGINT, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._has_come = True

    def _let_go(self) -> None:
        self._is_held = False
        signal.signal(signal.SIGINT, self._before)
        if self._has_come:
            signal.raise_signal(signal.SIGINT)


INTERRUPTS = Interrupts()
"""Those of this process."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a manifest says besides rows and positions."""

    catalog: Sequence[Mapping[str, Any]]
    state: EngineState
    watermarks: Mapping[str, int]


Describe = Callable[[int, Mapping[str, Any] | None], Contents]
"""Tells what a commit has to say, of an epoch and its report; the parts of the engine know."""


class Ledger:
    """One writer's books. A commit is one write; what follows from it is told to `on_commit`.

    Args:
        root: the folder that they are in.
        compactor: merges what is stored; closed with the ledger.
        timeline: the committed epochs, where they are known already.
        read_only: whether another process writes.
    """

    def __init__(
        self,
        root: Path,
        compactor: Compactor,
        timeline: Timeline | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self._root = root
        self._read_only = read_only
        self.turn = WriterTurn(root)
        """Whoever changes definitions or runs an epoch has it; see docs/locks.md."""
        self.timeline = timeline or Timeline(root, read_only=read_only)
        self.wal = EpochLog(root, read_only=read_only)
        self.pending = PendingLog(root, numbers(self.manifest))
        self.in_flight = InFlight(root, self.manifest.epoch)
        self.compactor = compactor
        self.pins: list[Callable[[int], frozenset[int]]] = []
        """Each says which past epochs somebody still needs, as an epoch is committed."""
        self.describe: Describe
        self.on_commit: list[Callable[[], object]] = []
        """Called after each commit, in order, by whoever committed."""

    @property
    def manifest(self) -> Manifest:
        """What the newest epoch holds."""
        return self.timeline.manifest

    @property
    def epoch(self) -> int:
        """The newest committed epoch; 0 before the first."""
        return self.timeline.manifest.epoch

    @property
    def next_revision(self) -> str:
        """The version that the next change of definitions will have; no other has it, ever."""
        return f"{self.manifest.epoch}.{self.manifest.revision + 1}"

    def commit(
        self,
        epoch: int,
        traces: Mapping[str, Trace],
        offsets: Mapping[str, Any],
        report: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an epoch, or a new revision of the current one, durable and visible."""
        with INTERRUPTS.until_done():
            self._commit(epoch, traces, offsets, report)

    def _commit(
        self,
        epoch: int,
        traces: Mapping[str, Trace],
        offsets: Mapping[str, Any],
        report: Mapping[str, Any] | None,
    ) -> None:
        if self._read_only:
            raise ReadOnlyDatabase("a commit", str(self._root))
        contents = self.describe(epoch, report)
        pins = tuple(self.pins)  # a view that is built beside the epochs lets go of its own
        self.timeline.pinned = frozenset().union(*(pinned(epoch) for pinned in pins))
        INTERRUPTS.hold()
        self.timeline.commit(
            epoch,
            traces=traces,
            offsets=offsets,
            catalog=contents.catalog,
            state=contents.state,
            watermarks=contents.watermarks,
        )
        for each in self.on_commit:
            after_commit(each)

    def recommit(self, traces: Mapping[str, Trace] | None = None) -> None:
        """Commit a new revision of the current epoch: something but rows has changed.

        Args:
            traces: the same rows stored in another way; as they are by default.
        """
        now = self.manifest
        self.commit(now.epoch, now.traces if traces is None else traces, now.offsets)

    @contextmanager
    def pinning(self, epoch: int) -> Iterator[None]:
        """Keep an epoch's files while the context lasts."""

        def pinned(_now: int) -> frozenset[int]:
            return frozenset({epoch})

        self.pins.append(pinned)
        try:
            yield
        finally:
            self.pins.remove(pinned)

    def forget_through(self, through: int, connected: Collection[str]) -> None:
        """Let go of logged epochs, and of pushed rows, that no replay will ask for any more.

        Args:
            through: the last epoch to forget.
            connected: tables whose rows come from connectors, which keep them themselves.
        """
        ends: dict[str, int] = {}
        for logged in self.wal.forget_through(through):
            for each in logged.ranges:
                if each.table not in connected and isinstance(each.end, int):
                    ends[each.table] = max(each.end, ends.get(each.table, 0))
        for table, end in ends.items():
            self.pending.drop_through(table, end)

    def finish_restore(self) -> None:
        """Do what a restore has left to do, and take note of the rows that wait for epochs."""
        finish(self.manifest, self.pending, self.wal)
        self.in_flight = InFlight(self._root, self.manifest.epoch)
        self.in_flight.keep_only([each.epoch for each in self.wal.open_after(self.epoch)])

    def close(self) -> None:
        """End the thread that compacts, and close the log."""
        self.compactor.close()
        self.wal.close()
