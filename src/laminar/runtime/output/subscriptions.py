"""Subscriptions: consumers outside that follow the changes of a relation, at their own pace.

A subscription gives out what each epoch changed, in order, and notes an epoch as taken when the
next one is asked for. So whoever stops in the middle of an epoch is given it again. One with a name
keeps its cursor on disk and goes on after a restart.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from laminar.checkpoint.fingerprint import rows_fingerprint
from laminar.errors import EpochNotFound, InvalidSetting, ReadOnlyDatabase, SubscriptionEnded
from laminar.runtime.history.differences import ChangeFrame
from laminar.runtime.output.changelog import EpochNeed
from laminar.store.cursors import SUBSCRIPTIONS, Cursor, CursorStore

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Defined
    from laminar.runtime.history.timeline import Snapshot, Timeline
    from laminar.runtime.output.changelog import DagChangelogPropagator

_T = TypeVar("_T")

Present = Callable[[ChangeFrame, int], "_T | None"]
"""Makes of changes and their epoch what is given out; None if there are none."""


class Subscriptions:
    """All subscriptions of a database: those that are open, and those with a name.

    Args:
        defined: what can be followed.
        log: tells what changed.
        timeline: the epochs that are kept.
        snapshot: what readers see now.
        root: where cursors are kept.
        poll_seconds: how often whoever waits looks for epochs of another process, which writes;
            None if this one does.
    """

    def __init__(
        self,
        defined: Defined,
        log: DagChangelogPropagator,
        timeline: Timeline,
        snapshot: Callable[[], Snapshot],
        root: Path,
        poll_seconds: float | None = None,
    ) -> None:
        self._defined = defined
        self.log = log
        self.timeline = timeline
        self.snapshot = snapshot
        self.poll_seconds = poll_seconds
        self._root = root
        self.store_followed: Callable[[], bool] = lambda: True
        """Stores what open subscriptions follow, if it can be done now; says whether."""
        self.is_awaited: Callable[[], bool] = lambda: False
        """Tells whether epochs may be waiting for the caller, who must not wait for one."""
        self.on_spark: Callable[[], AbstractContextManager[None]] = nullcontext
        """What of a subscription needs a Spark is done in it."""
        self.cursors = CursorStore(root, SUBSCRIPTIONS, cached=self.is_writer)
        # Not a WeakSet: anybody may open one while the writer asks which there are.
        self._open: dict[int, weakref.ref[Subscription[Any]]] = {}
        self._is_closed = False
        self._named = {each.consumer: each for each in self.cursors.all()}

    @property
    def is_writer(self) -> bool:
        """Whether epochs are made by this process, and cursors may be written."""
        return self.poll_seconds is None

    def named(self) -> list[Cursor]:
        """Return the subscriptions that have a name, and how far each has come."""
        return list(self._named.values()) if self.is_writer else list(self.cursors.all())

    def opened(self) -> list[Subscription[Any]]:
        """Return the subscriptions that somebody holds."""
        found = [each() for each in tuple(self._open.values())]
        return [each for each in found if each is not None and not each.is_closed]

    def add(self, subscription: Subscription[Any]) -> None:
        """Keep what an open subscription needs, as long as somebody holds it."""
        key = id(subscription)
        self._open[key] = weakref.ref(subscription, lambda _: self._open.pop(key, None))

    def save(self, name: str, epoch: int, about: dict[str, str]) -> None:
        """Note that a subscription with a name has taken an epoch."""
        if self._is_closed:
            return  # the folder is not ours any more: the epoch is given once more
        self.cursors.advance(name, epoch, about)
        self._named[name] = Cursor(name, epoch, about)

    def forget(self, name: str) -> bool:
        """Forget a subscription with a name; say whether there was one."""
        for each in self.opened():
            if each.name == name:
                each.close()
        self.cursors.forget(name)
        return self._named.pop(name, None) is not None

    def close(self) -> None:
        """End those that are open, also for threads that wait in them."""
        self._is_closed = True
        for each in self.opened():
            each.close()

    def tapped(self) -> frozenset[str]:
        """Return the relations whose rows are stored, that their changes are cheap to tell."""
        named = {each.about["relation"] for each in list(self._named.values())}
        followed = {each.relation for each in self.opened() if each.follows}
        return frozenset(named | followed) & self._defined.catalog.definitions.keys()

    def subscribe(
        self,
        relation: str,
        from_epoch: int | None,
        present: Present[_T],
        *,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Subscription[_T]:
        """Open a subscription; one with a known name goes on where it was, unless told otherwise.

        Args:
            relation: as it is defined.
            from_epoch: the last epoch that was seen; None to start with all rows, or to go on.
            present: the form in which changes are given out.
            name: under which the cursor is kept on disk.
            timeout: seconds to wait for the next change, however the database runs.
        """
        if name is not None and not self.is_writer:
            raise ReadOnlyDatabase("a subscription with a name", str(self._root))
        cursor = self.cursors.get(name) if name is not None else None
        goes_on = cursor is not None and from_epoch is None
        if cursor is not None and cursor.about["relation"] != relation:
            raise InvalidSetting("name", name, f'one that is used for "{relation}" only')
        if cursor is not None and goes_on:
            from_epoch = cursor.epoch
        made = Subscription(self, relation, from_epoch, present, name=name, timeout=timeout)
        if cursor is not None and goes_on and cursor.about["definition"] != made.definition:
            raise SubscriptionEnded(relation, "it was defined anew", name)
        return made

    def needs(self) -> Iterator[EpochNeed]:
        """Yield what subscriptions have not taken yet."""
        within = self._defined.settings.number("subscription_retention_epochs")
        known = self._defined.catalog.definitions
        for each in self.opened():
            if each.relation in known:
                yield EpochNeed(each.relation, each.taken, within=within)
        for cursor in list(self._named.values()):
            if cursor.about["relation"] in known:
                yield EpochNeed(cursor.about["relation"], cursor.epoch, within=within)


class Subscription(Generic[_T]):
    """An iterator of (epoch, what changed), from one epoch on.

    It ends when it has caught up, and goes on when it is asked again after further epochs. While
    the database runs continuously it waits for the next change instead, until the database stops;
    who is called by the database, such as a sink, would wait for itself, and does not.

    Args:
        subscriptions: all of the database.
        relation: what is followed.
        taken: the last epoch that was seen; None to start with all rows.
        present: the form in which changes are given out.
        name: under which the cursor is kept on disk.
        timeout: seconds to wait for the next change, however the database runs.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        relation: str,
        taken: int | None,
        present: Present[_T],
        *,
        name: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self._subscriptions = subscriptions
        self._log = subscriptions.log
        self.relation = relation
        self.name = name
        self.timeout = timeout
        self.is_closed = False
        self.follows = name is not None
        self._is_stored = False
        self._present = present
        snapshot = subscriptions.snapshot()
        reach = self._log.reach(snapshot, relation)
        self._wants_all = taken is None
        self._given: int | None = None
        self.taken = reach if taken is None else min(taken, reach)
        """The last epoch that was taken: what `from_epoch` is to be, to go on from here."""
        subscriptions.add(self)  # from now on nothing it needs is removed
        self._saved: int | None = None
        self.definition = self._fingerprint(snapshot)
        """Changes when what is followed is defined anew."""
        if taken is not None:
            if taken > snapshot.manifest.epoch:
                subscriptions.timeline.get(taken)
            self._log.epochs(snapshot, relation, self.taken)  # at once, if it is gone

    def __iter__(self) -> Subscription[_T]:
        return self

    def __next__(self) -> tuple[int, _T]:
        """Return the next epoch that changed something; what was given before counts as taken."""
        with self._subscriptions.on_spark():
            found = self._found()
        if found is None:
            raise StopIteration
        return found

    def _found(self) -> tuple[int, _T] | None:
        self.ack()
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        while not self.is_closed:
            snapshot = self._subscriptions.snapshot()
            found = self._next(snapshot)
            if found is not None:
                return found
            self._save()
            if not self._wait(snapshot, deadline):
                break
        return None

    def ack(self) -> None:
        """Note that what was given out last has been dealt with; it does not come again."""
        if self._given is not None:
            self.taken, self._given, self._wants_all = self._given, None, False
            self._save()

    def close(self) -> None:
        """End it, also for a thread that waits in it; a cursor with a name stays."""
        self.is_closed = True
        self._log.notify()

    def _next(self, snapshot: Snapshot) -> tuple[int, _T] | None:
        if self._fingerprint(snapshot) != self.definition:
            raise SubscriptionEnded(self.relation, "it was dropped, or defined anew", self.name)
        if self._wants_all:
            rows = self._all_rows(snapshot)
            made = None if rows is None else self._present(rows, self.taken)
            if made is not None:
                self._given = self.taken
                return self.taken, made
            self._wants_all = False
        for epoch in self._log.epochs(snapshot, self.relation, self.taken):
            self._follow()
            found = self._log.between.delta(snapshot, self.relation, self.taken, epoch)
            made = None if found is None else self._present(found, epoch)
            if made is not None:
                self._given = epoch
                return epoch, made
            self.taken = epoch
        return None

    def _all_rows(self, snapshot: Snapshot) -> ChangeFrame | None:
        """Return all rows, of a newer epoch if the first one was removed before it was read."""
        try:
            return self._log.between.content(snapshot, self.relation, self.taken)
        except EpochNotFound:
            self.taken = self._log.reach(snapshot, self.relation)
            return self._log.between.content(snapshot, self.relation, self.taken)

    def _follow(self) -> None:
        """Have the rows stored from now on: then the next changes need no comparison."""
        self.follows = True
        if not self._is_stored:
            self._is_stored = self._subscriptions.store_followed()

    def _wait(self, seen: Snapshot, deadline: float | None) -> bool:
        """Wait for another epoch; say whether there may be one."""
        while True:
            moves = self._log.moves  # before looking: what comes after that ends the wait
            if self.is_closed or self._subscriptions.snapshot() is not seen:
                return not self.is_closed
            left = None if deadline is None else deadline - time.monotonic()
            if left is None and (not self._log.is_live or self._subscriptions.is_awaited()):
                return False
            if left is not None and left <= 0:
                return False
            poll = self._subscriptions.poll_seconds
            self._log.wait(moves, min((e for e in (left, poll) if e is not None), default=None))

    def _save(self) -> None:
        if self.name is not None and self._saved != self.taken and not self._wants_all:
            about = {"relation": self.relation, "definition": self.definition}
            self._subscriptions.save(self.name, self.taken, about)
            self._saved = self.taken

    def _fingerprint(self, snapshot: Snapshot) -> str:
        if self.relation not in snapshot.catalog.definitions:
            return ""
        upstream = snapshot.upstream([self.relation])
        return rows_fingerprint(snapshot.manifest.catalog, upstream)
