"""Where each sink stands against what it reads: its lag, what is shown of it, what it needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.output.changelog import EpochNeed
from laminar.runtime.output.outlet import Outlet
from laminar.runtime.output.sink_books import SinkBooks
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sink_state import SinkMode, SinkStatus, lag_of, shown, stored_status

if TYPE_CHECKING:
    from laminar.runtime.history.timeline import Snapshot
    from laminar.runtime.output.changelog import DagChangelogPropagator

_LOG = logging.getLogger("laminar.sinks")


class SinkProgress:
    """How far the sinks of a database are behind.

    Args:
        books: which there are, and how far each has come.
        log: how far what they read has come.
        snapshot: what readers see now.
    """

    def __init__(
        self,
        books: SinkBooks,
        log: DagChangelogPropagator,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self._books = books
        self._log = log
        self._snapshot = snapshot

    def reach(self, definition: SinkDefinition) -> int:
        """Return the epoch that what a sink reads is at."""
        return self._log.reach(self._snapshot(), definition.relation)

    def lag(self, outlet: Outlet) -> int:
        """Return how many epochs a sink has been behind since it was created or resumed."""
        taken = self._books.cursor(outlet.name)
        before = outlet.definition.from_epoch - 1 if taken is None else taken
        return outlet.state.lag(before, self.reach(outlet.definition))

    def is_level(self, names: Iterable[str] | None = None) -> bool:
        """Whether every sink that has a connector has taken all there is.

        Args:
            names: the sinks that count, then with a connector or without; all by default.
        """
        snapshot, outlets = self._snapshot(), self._books.outlets
        if names is not None:
            return not any(outlets[each].lags(snapshot) for each in names if each in outlets)
        return not any(e.connector is not None and e.lags(snapshot) for e in outlets.values())

    # As it is shown

    def status(self, name: str) -> SinkStatus:
        """Return where a sink stands, as it is shown."""
        return self._status(self._books.defined[name])

    def statuses(self) -> dict[str, SinkStatus]:
        """Return where each sink stands, as it is shown."""
        return {each.name: self._status(each) for each in self._books.sinks()}

    def _status(self, definition: SinkDefinition) -> SinkStatus:
        """Return where a sink stands; that of another process stands where it wrote it down."""
        name, books = definition.name, self._books
        outlet, reach = books.outlets.get(name), self.reach(definition)
        if outlet is None:
            return stored_status(books.stored(name), definition.from_epoch, reach)
        taken, next_try = books.cursor(name), books.next_try(outlet.state)
        lag = lag_of(taken, reach, definition.from_epoch)
        return shown(outlet.state, taken, lag, next_try, outlet.away)

    # What follows from it

    def needs(self) -> Iterator[EpochNeed]:
        """Yield what is still needed to work out what a sink has not taken."""
        for each in self._books.sinks():
            taken, outlet = self._books.cursor(each.name), self._books.outlets.get(each.name)
            start = each.from_epoch if taken is None else taken
            yield EpochNeed(each.relation, start, is_away=_is_gone(each, outlet))

    def committed(self) -> None:
        """Let sinks see that something was committed; suspend those that are too far behind."""
        for outlet in self._books.outlets.values():
            lag = self.lag(outlet)
            if outlet.state.judged(lag, outlet.rule) != outlet.state and not _is_code_gone(outlet):
                self._suspend(outlet, lag)
        self._books.wake()

    def _suspend(self, outlet: Outlet, lag: int) -> None:
        try:
            self._books.note(outlet, lambda state: state.judged(lag, outlet.rule))
        except Exception as error:
            _LOG.warning('the state of sink "%s" cannot be kept: %s', outlet.name, error)
        _LOG.warning('sink "%s" is suspended: %s', outlet.name, outlet.state.reason)


def _is_code_gone(outlet: Outlet) -> bool:
    """Whether a sink of Python code waits for its code."""
    return outlet.definition.connector == OBJECT and outlet.connector is None


def _is_gone(definition: SinkDefinition, outlet: Outlet | None) -> bool:
    """Whether a sink takes all it has missed at once when it is back."""
    if outlet is None:
        return definition.connector == OBJECT
    return outlet.state.mode is SinkMode.SUSPENDED or _is_code_gone(outlet)
