"""Who waits for sinks, and for how long.

Sinks are a user's code, which may fail, take its time, or never come back: nobody waits for one
without a bound, and then only for one that has kept up so far, or because something it is to be
told would be lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from laminar.errors import ConnectorError, SinkBehind, SinkHolds
from laminar.runtime.output.outlet import reason_of
from laminar.runtime.output.sink_books import SinkBooks
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sink_progress import SinkProgress
from laminar.runtime.output.sink_state import Backoff, SinkStatus, holds

if TYPE_CHECKING:
    from laminar.runtime.history.timeline import Snapshot

_LOG = logging.getLogger("laminar.sinks")


@dataclass(slots=True)
class SinkLimits:
    """For how many seconds who waits, and how long a sink that fails is left alone."""

    wait: float = 5.0
    """Whoever stepped waits so long for sinks that keep up."""
    timeout: float = 60.0
    """A statement that cannot do without a sink's answer waits so long."""
    backoff: Backoff = field(default_factory=Backoff)


class SinkWaits:
    """All waits for the sinks of a database. A sink waits for none.

    Args:
        books: which there are.
        progress: how far each is behind.
        snapshot: what readers see now.
    """

    def __init__(
        self, books: SinkBooks, progress: SinkProgress, snapshot: Callable[[], Snapshot]
    ) -> None:
        self._books = books
        self._progress = progress
        self._snapshot = snapshot
        self.limits = SinkLimits()

    @property
    def is_sink(self) -> bool:
        """Whether the caller is a sink that is being called."""
        known = (*self._books.outlets.values(), *self._books.ending)
        return any(each.runner.is_mine for each in known)

    # For what they have not taken

    def settle(self, names: Iterable[str] | None = None) -> None:
        """Return when sinks that keep up have taken all that is committed now, or too soon.

        One that is not done when the patience is over is slow: nobody waits for it until it is
        level again. Nobody waits for one that fails, is paused, or is the caller.

        Args:
            names: the sinks that count; all by default.
        """
        if self._books.is_held or self.is_sink:
            return
        snapshot, until = self._snapshot(), monotonic() + self.limits.wait
        known = tuple(self._books.outlets.values())
        for each in known if names is None else [e for e in known if e.name in set(names)]:
            each.wait_level(snapshot, until)

    def finish(self) -> dict[str, SinkStatus]:
        """Wait for sinks as long as they get on; return those that have not taken all."""
        for each in self._books.outlets.values():
            before: int | None = -1
            while before != (before := self._books.cursor(each.name)):
                each.is_slow = False
                if each.wait_level(self._snapshot(), monotonic() + self.limits.timeout):
                    break
        return {name: each for name, each in self._progress.statuses().items() if each.lag_epochs}

    def await_first(self, sink: SinkDefinition) -> None:
        """Return when a new sink has all rows that its relation had, or is slow.

        Raises:
            ConnectorError: it could not take them.
        """
        name, books = sink.name, self._books
        outlet = books.outlets.get(name)
        if outlet is None or outlet.definition is not sink:
            return
        has_all = outlet.wait_until(
            lambda: books.cursor(name) is not None, monotonic() + self.limits.wait
        )
        if not has_all and outlet.error is not None and books.cursor(name) is None:
            raise ConnectorError(name, reason_of(outlet.error)) from outlet.error
        self.settle([name])

    def bring_level(self, names: Iterable[str], what: str) -> None:
        """Wait until some sinks have taken all that is committed, for something that needs it.

        Raises:
            SinkBehind: one fails, is stopped, is the caller, or takes longer than the timeout.
        """
        until = monotonic() + self.limits.timeout
        snapshot = self._snapshot()
        for name in names:
            outlet = self._books.outlets.get(name)
            if outlet is not None and outlet.lags(snapshot):
                outlet.is_slow = False
                if not outlet.wait_level(snapshot, until):
                    found = self._progress.status(name)
                    raise SinkBehind(name, what, found.lag_epochs, found.state, found.reason or "")

    # For those that no epoch may run away from

    @property
    def holds_any(self) -> bool:
        """Whether there is a sink that no epoch may run away from."""
        return any(each.rule.holds for each in self._books.outlets.values())

    def holding(self) -> tuple[str, int] | None:
        """Return a sink that no epoch may run away from, and how far behind it is."""
        for each in self._books.outlets.values():
            if each.rule.holds and holds(each.state, lag := self._progress.lag(each), each.rule):
                return each.name, lag
        return None

    def make_room(self) -> None:
        """Wait for a sink that holds the epochs, as long as for one that keeps up.

        Raises:
            SinkHolds: it still does.
        """
        found = self.holding()
        if found is not None:
            self.settle([found[0]])
            found = self.holding()
        if found is not None:
            status = self._progress.status(found[0])
            raise SinkHolds(found[0], found[1], status.state, status.reason or "")

    # For their ends

    def close_retired(self) -> None:
        """Wait until connectors are closed that are no longer wanted, for a moment.

        One that is being called is closed when that is over.
        """
        until = monotonic() + self.limits.wait
        for each in () if self.is_sink else self._books.ending:
            if not each.doing:
                each.runner.join(until - monotonic())
        self._books.forget_ended()

    def leave(self) -> None:
        """Wait for all that were told to end, for a moment; who does not come back is left behind.

        One that is known to be slow is not waited for.
        """
        until = monotonic() + self.limits.wait
        for each in self._books.ending:
            left = 0.0 if each.is_slow and each.doing else until - monotonic()
            if not each.runner.join(left) and not each.runner.is_mine:
                _LOG.warning(
                    'closed without sink "%s", which is %s', each.name, each.doing or "busy"
                )
