"""One sink at work: its connector, where it stands, and the thread that hands it epochs.

Law: epochs come to it in order, each after it was committed, and its cursor is moved after it has
written. So only the epoch after its cursor may come again, with the same number and the same rows.
No lock is held, and no turn is had, while it is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from laminar.connectors.sink import SinkConnector, close_sink
from laminar.errors import ConnectorError, LaminarError
from laminar.errors.secrets import scrub, told
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sink_runner import SinkRunner
from laminar.runtime.output.sink_state import Backoff, SinkState
from laminar.runtime.spark.error_translation import first_sentence, is_gone
from laminar.runtime.spark.session import suit
from laminar.store import durable_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.history.differences import ChangeFrame, Differences
    from laminar.runtime.history.timeline import Snapshot
    from laminar.runtime.output.changelog import DagChangelogPropagator

_LOG = logging.getLogger("laminar.sinks")

Change = Callable[[SinkState], SinkState]


class Books(Protocol):
    """Who knows which sinks there are, and how far each has come."""

    def cursor(self, name: str) -> int | None:
        """Return the last epoch that a sink has taken."""

    def view(self, outlet: Outlet) -> Snapshot | None:
        """Return what a sink may be told of now; None if it is not to be called."""

    def note(self, outlet: Outlet, change: Change, epoch: int | None = None) -> bool:
        """Note where a sink stands, and an epoch it has taken; False if it is not there any more.

        In memory it is noted in any case; an error says that it is not on disk.
        """


class Connectors(Protocol):
    """Who knows what sinks write through."""

    def build(self, definition: SinkDefinition) -> SinkConnector:
        """Return the connector of a definition."""

    def refuse_shared(self, connector: SinkConnector, name: str) -> None:
        """Refuse a connector that would write where another sink does."""


@dataclass(frozen=True, slots=True)
class OutletParts:
    """What all sinks of a database work with."""

    books: Books
    connectors: Connectors
    log: DagChangelogPropagator
    between: Callable[[], Differences]
    """Makes what works out changes, with a session of its own: sinks run side by side."""
    clock: Callable[[], float]
    """Seconds, never going back: by it waits are measured."""
    backoff: Callable[[], Backoff]


class Outlet:
    """A sink that is defined, with its thread; another definition of its name is another one.

    Args:
        definition: what it is.
        parts: what all of them share.
        state: where it stands.
        connector: what it writes through; None if that is to be built, or handed in later.
        after: the one whose place it takes: it is called when that one is over.
    """

    def __init__(
        self,
        definition: SinkDefinition,
        parts: OutletParts,
        state: SinkState,
        connector: SinkConnector | None = None,
        after: Outlet | None = None,
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.rule = definition.rule
        self.state = state
        self.connector = connector
        self.is_slow = False
        """It took longer than anybody waits: nobody does until it is level again."""
        self.doing = ""
        """What it is being called for; empty if it is not."""
        self.error: BaseException | None = None
        """What went wrong the last time."""
        self._parts = parts
        self._after = after
        self._between: Differences | None = None
        self._told = ""
        self.runner = SinkRunner(self.name, self._work, self._end)
        if after is not None:
            after.runner.then = self.runner.wake

    # For those who wait for it

    @property
    def away(self) -> str:
        """Why it is not called though nothing has gone wrong; empty if it is."""
        if self._is_blocked:
            return "a call of the one whose place it takes has not come back"
        if self.connector is None:
            is_code = self.definition.connector == OBJECT
            return "its Python code is not back" if is_code else "it is not connected yet"
        return ""

    @property
    def _is_blocked(self) -> bool:
        return self._after is not None and not self._after.runner.is_over

    @property
    def is_awaited(self) -> bool:
        """Whether it keeps up, so that it makes sense to wait for it."""
        is_here = self.connector is not None or self.definition.connector != OBJECT
        is_well = not self.state.is_stopped and not self.state.is_failing
        return is_here and is_well and not self.is_slow and not self.runner.is_stopping

    def wait_until(self, is_so: Callable[[], bool], until: float) -> bool:
        """Wait for something as long as it keeps up; say whether it is so.

        Args:
            is_so: asked whenever something has happened to it.
            until: the end of patience, by `time.monotonic`; one that is not done by then is slow.
        """
        while True:
            seen = self.runner.signals
            if is_so():
                return True
            if not self.is_awaited or self.runner.is_mine:
                return False
            left = until - monotonic()
            if left <= 0:
                self.is_slow = True
                return False
            self.runner.wait(seen, left)

    def wait_level(self, snapshot: Snapshot, until: float) -> bool:
        """Wait until it has taken all of a snapshot; see `wait_until`."""
        return self.wait_until(lambda: not self.lags(snapshot), until)

    def lags(self, snapshot: Snapshot) -> bool:
        """Whether it has not taken all that is committed in a snapshot."""
        taken = self._parts.books.cursor(self.name)
        return taken is None or taken < self._parts.log.reach(snapshot, self.definition.relation)

    # What its thread does

    def _work(self) -> float | None:
        wait = self.state.wait(self._parts.clock())
        if wait != 0.0 or self._is_blocked:
            return wait or None
        snapshot = self._parts.books.view(self)
        if snapshot is None or (self.connector is None and self.definition.connector == OBJECT):
            return None
        try:
            self._connect()
            self._catch_up(snapshot)
        except BaseException as error:
            # Whatever a user's code raises ends neither this thread nor the process.
            self._fail(error)
        finally:
            self.doing = ""
        return self.state.wait(self._parts.clock()) or None

    def _connect(self) -> None:
        if self.connector is None:
            self.doing = "being connected"
            made = self._parts.connectors.build(self.definition)
            self.doing = ""
            try:
                self._parts.connectors.refuse_shared(made, self.name)
            except BaseException:
                close_sink(made)
                raise
            self.connector = made

    def _catch_up(self, snapshot: Snapshot) -> None:
        relation = self.definition.relation
        if self.lags(snapshot):
            taken = self._parts.books.cursor(self.name)
            if taken is None:
                taken = self.definition.from_epoch
                content = self._differences.content(snapshot, relation, taken)
                if not self._take(taken, content):
                    return
            for epoch in self._parts.log.epochs(snapshot, relation, taken):
                if self.state.is_stopped or self._parts.books.view(self) is None:
                    return
                delta = self._differences.delta(snapshot, relation, taken, epoch)
                if not self._take(epoch, delta):
                    return
                taken = epoch
        self._be_well()

    @property
    def _differences(self) -> Differences:
        if self._between is None:
            self._between = self._parts.between()
        return self._between

    def _take(self, epoch: int, delta: ChangeFrame | None) -> bool:
        """Let it take an epoch; False if it is not there any more."""
        connector = self.connector
        if connector is None or self.runner.is_stopping:
            return False
        if delta is not None:
            self.doing = f"writing epoch {epoch}"
            suit(delta.frame.sparkSession, changed=delta.rows, held=0)
            try:
                _write(connector, epoch, delta.frame)
            except Exception as error:
                if not is_gone(error):
                    raise
                # Somebody committed meanwhile, and other files have the same rows now.
                _write(connector, epoch, delta.again().frame)
            self.doing = ""
        is_there = self._parts.books.note(self, SinkState.succeeded, epoch)
        self.runner.wake()
        return is_there

    def _be_well(self) -> None:
        if not (self.is_slow or self.error or self._told) and self.state == self.state.level():
            return  # that it is level is no news: whoever is woken looks again
        self.is_slow, self.error = False, None
        if self._told:
            _LOG.info('sink "%s" goes on', self.name)
            self._told = ""
        if self.state != self.state.level():
            self._parts.books.note(self, SinkState.level)
        self.runner.wake()

    def _fail(self, error: BaseException) -> None:
        reason, is_away = reason_of(error), self.connector is None
        now, backoff = self._parts.clock(), self._parts.backoff()
        self.error = scrub(error)
        self._between = None  # its Spark may be gone: the next try begins with a session of then
        try:
            is_there = self._parts.books.note(
                self, lambda state: state.failed(reason, now, backoff, is_away=is_away)
            )
        except BaseException as unwritten:
            is_there = True
            _LOG.warning('the state of sink "%s" cannot be kept: %s', self.name, unwritten)
        if is_there and reason != self._told:
            self._told = reason
            _LOG.warning('sink "%s" fails, and is tried again: %s', self.name, reason)
        self.runner.wake()

    def _end(self) -> None:
        """Close the connector; whoever lets it end has nothing to do with what goes wrong."""
        connector, self.connector, self._between = self.connector, None, None
        self.doing = "being closed"
        try:
            if connector is not None:
                close_sink(connector)
        except BaseException as error:
            _LOG.warning('sink "%s" could not be closed: %s', self.name, reason_of(error))


def _write(connector: SinkConnector, epoch: int, delta: DataFrame) -> None:
    durable_files.failpoint("sink.before_publish")
    connector.write(epoch, delta)
    durable_files.failpoint("sink.after_publish")


def reason_of(error: BaseException) -> str:
    """Return what an error says, in a line without secrets; its Java may be gone."""
    try:
        if isinstance(error, ConnectorError):
            return told(error.detail or error.message)
        if isinstance(error, LaminarError):
            return told(error.message)
        return told(first_sentence(error)) or type(error).__name__
    except Exception:
        return f"{type(error).__name__}, which cannot be read: is Spark gone?"
