"""The log of changes: one delta per relation and epoch, and a cursor per consumer.

Sinks and subscriptions ride on it. Each knows the last epoch it has taken, and says so, that the
epochs it still needs are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laminar.runtime.history.differences import Differences
from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.runtime.history.timeline import Snapshot, Timeline
    from laminar.runtime.scheduling.scheduler import ViewScheduler


@dataclass(frozen=True, slots=True)
class EpochNeed:
    """What a consumer asks to be kept: the relation, and the last epoch it has taken.

    One that is away for now takes all it has missed at once when it is back; only the epoch after
    its last one may have been handed over already, and must come again as it was. `within` is how
    many epochs it may fall behind before it loses its claim.
    """

    relation: str
    taken: int
    is_away: bool = False
    within: int | None = None


class DagChangelogPropagator:
    """Tells consumers what changed, from what is stored.

    Args:
        timeline: the epochs that are kept.
        scheduler: which views are behind.
        between: works out what changed.
    """

    def __init__(self, timeline: Timeline, scheduler: ViewScheduler, between: Differences) -> None:
        self._timeline = timeline
        self._scheduler = scheduler
        self.between = between
        self.needs: list[Callable[[], Iterable[EpochNeed]]] = []
        """Who says what consumers still need."""
        self._moved = threading.Condition(threading.Lock())
        self.moves = 0
        """A number that differs after a commit, and when somebody who waits should look up."""
        self.is_live = False
        """Whether epochs follow one another by themselves, so that waiting for one makes sense."""

    def live(self, runs: bool) -> None:
        """Note whether epochs follow one another: whoever waits looks up, and may give up."""
        self.is_live = runs
        self.notify()

    def notify(self) -> None:
        """Wake all who wait for an epoch."""
        with self._moved:
            self.moves += 1
            self._moved.notify_all()

    def wait(self, seen: int, at_most: float | None) -> None:
        """Wait until `moves` is not what it was, for so many seconds at most."""
        with self._moved:
            if self.moves == seen:
                self._moved.wait(at_most)

    def pinned(self, epoch: int) -> frozenset[int]:
        """Return the epochs that consumers still need, as an epoch is committed."""
        # Whoever starts to follow a relation that is held starts where it is held.
        pinned = set(self._scheduler.since.values())
        for need in (each for needs in self.needs for each in needs()):
            least = need.taken
            if need.within is not None and epoch - least > need.within:
                continue
            # What is held has not changed since; its last content is enough.
            if need.is_away or need.relation in self._scheduler.since:
                pinned |= {least, least + 1}
            else:
                pinned |= set(range(least, epoch + 1))
        return frozenset(pinned)

    def reach(self, snapshot: Snapshot, relation: str) -> int:
        """Return the newest epoch of which it is settled what changed in a relation."""
        manifest = snapshot.manifest
        return ViewProgress.from_state(manifest.state).cursor(relation, manifest.epoch)

    def epochs(self, snapshot: Snapshot, relation: str, after: int) -> list[int]:
        """Return the epochs a consumer has not taken, oldest first.

        Raises:
            EpochNotFound: the last one it took is pruned, so what follows cannot be told.
        """
        last = self.reach(snapshot, relation)
        if after >= last:
            return []  # it may be ahead of epochs that are being replayed
        kept = self._timeline.epochs()
        if after not in kept:
            self._timeline.get(after)  # raises, and says which are kept
        return [each for each in kept if after < each <= last]
