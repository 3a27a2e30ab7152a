"""Sinks: every epoch reaches them once it is committed, in order, none is lost.

Each sink has a durable cursor and a thread of its own (`Outlet`), whether SQL defined it or Python
code hands it in. What it has not taken yet (the last epoch, or more after a crash, a failure, or a
pause of what it reads) comes from the log of changes. Sinks are a user's code, which may fail, take
its time, or never come back: nobody waits for one without a bound, and then only for one that has
kept up so far, or because something it is to be told would be lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from laminar.connectors import sink as sinks_at_large
from laminar.connectors.sink import SinkConnector, SinkSpec, create_sink
from laminar.errors import ConnectorError, NotSupported, RelationExists, SinkBehind, SinkHolds
from laminar.model.schema import Field, Schema
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.row_keys import row_key
from laminar.runtime.catalog.settings import wall_clock
from laminar.runtime.output.bounded_call import end_aside
from laminar.runtime.output.changelog import EpochNeed
from laminar.runtime.output.outlet import Change, Outlet, OutletParts, reason_of
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sink_state import (
    Backoff,
    SinkMode,
    SinkState,
    SinkStatus,
    holds,
    lag_of,
    opened,
    shown,
    stored_state,
    stored_status,
)
from laminar.store import durable_files

if TYPE_CHECKING:
    from laminar.runtime.history.differences import Differences
    from laminar.runtime.history.timeline import Snapshot
    from laminar.runtime.output.changelog import DagChangelogPropagator
    from laminar.store.cursors import Cursor, CursorStore

_LOG = logging.getLogger("laminar.sinks")


@dataclass(slots=True)
class SinkLimits:
    """For how many seconds who waits, and how long a sink that fails is left alone."""

    wait: float = 5.0
    """Whoever stepped waits so long for sinks that keep up."""
    timeout: float = 60.0
    """A statement that cannot do without a sink's answer waits so long."""
    backoff: Backoff = field(default_factory=Backoff)


class Publisher:
    """All sinks of a database, and how far each has come.

    Which sinks there are is changed in the writer's turn. What is known of them is replaced as a
    whole, under `_books`, so whoever reads it needs no lock. A connector is closed by the thread of
    its sink.

    Args:
        defined: what they read.
        log: tells what a sink has not taken.
        snapshot: what readers see now.
        cursors: how far each sink has come, on disk.
        between: makes what works out changes for one sink; by default all share that of the log.
        clock: seconds, never going back.
        wall: milliseconds from 1970, to be shown.
    """

    def __init__(
        self,
        defined: Defined,
        log: DagChangelogPropagator,
        snapshot: Callable[[], Snapshot],
        cursors: CursorStore,
        between: Callable[[], Differences] | None = None,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], int] = wall_clock,
    ) -> None:
        self._relations = defined
        self._log = log
        self._snapshot = snapshot
        self._cursors = cursors
        self._clock = clock
        self._wall = wall
        self.limits = SinkLimits()
        self._defined: Mapping[str, SinkDefinition] = {}
        self._outlets: Mapping[str, Outlet] = {}
        self._ending: tuple[Outlet, ...] = ()
        """Those that were told to end, and may still be called."""
        self._books = threading.Lock()
        self._held = 1
        """How many say that no sink may look at what is committed: opening is the first."""
        self.on_room: Callable[[], object] = lambda: None
        """Called when a sink has taken something that holds the epochs."""
        self._parts = OutletParts(
            self, log, between or (lambda: log.between), clock, lambda: self.limits.backoff
        )
        sinks_at_large.reached = lambda point: durable_files.failpoint(point)

    # Which there are

    def sinks(self) -> Sequence[SinkDefinition]:
        """Return all sinks, first defined first."""
        return tuple(self._defined.values())

    def to_json(self) -> list[dict[str, Any]]:
        """Return the definitions as plain values."""
        return [asdict(each) for each in self.sinks()]

    def load(self, data: Iterable[Mapping[str, Any]]) -> None:
        """Know the sinks of another state, and no others; one that stays goes on."""
        before = {each.name: each.built_from for each in self.sinks()}
        found = [SinkDefinition(**entry) for entry in data]
        same = {each.name for each in found if before.get(each.name) == each.built_from}
        with self._books:
            self._defined = {each.name: each for each in found}
            for name in same & self._outlets.keys():
                self._outlets[name].definition = self._defined[name]
        self._retire(self._outlets.keys() - same)

    def open(self) -> None:
        """Let each sink have its thread, which builds its connector; none is waited for.

        Those of Python code wait until it is back.
        """
        for each in self.sinks():
            if each.name not in self._outlets:
                self._put(each, None)
        self.forget_cursors()

    def start(self) -> None:
        """Let sinks be called: what they may be told is whole from now on."""
        with self._books:
            self._held -= 1
        self.wake()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no sink look at what is committed: it is not whole before the end."""
        with self._books:
            self._held += 1
        try:
            yield
        finally:
            self.start()

    def build(self, definition: SinkDefinition) -> SinkConnector:
        """Return the connector of a definition, which checks its options."""
        catalog = self._relations.catalog
        shape = catalog.shape(definition.relation)
        fields = tuple(map(Field, shape.columns, shape.types))
        key = row_key(definition.relation, catalog.relations.by_name, catalog.primary_keys())
        options = definition.for_connector
        spec = SinkSpec(definition.name, definition.relation, Schema(fields), options, key)
        return create_sink(definition.connector, spec)

    def refuse_shared(self, connector: SinkConnector, name: str) -> None:
        """Refuse a connector for a sink that would write where another one does, or still does."""
        target = getattr(connector, "target", None)
        others = (*self._outlets.values(), *self._ending)
        for other in others if target is not None else ():
            is_ending = other.name == name and other.runner.is_stopping
            if other.name == name and not is_ending:
                continue
            if getattr(other.connector, "target", None) == target and not other.runner.is_over:
                raise NotSupported(
                    f'a second sink for {target}, to which "{other.name}" writes',
                    "choose another place",
                )

    @contextmanager
    def adding(self, definition: SinkDefinition) -> Iterator[None]:
        """Know a sink, if the commit inside succeeds; nothing comes to it before `connect`."""
        before, name = self._defined, definition.name
        if definition.connector != OBJECT and name in before:
            raise RelationExists(name)
        with self._anew(definition):
            yield

    @contextmanager
    def _anew(self, definition: SinkDefinition) -> Iterator[None]:
        """Know a sink that starts from the beginning, if the commit inside succeeds."""
        before, name = self._defined, definition.name
        with self._books:
            taken = self._cursors.get(name)
            self._cursors.forget(name)
            self._defined = {**before, name: definition}
        try:
            yield
        except BaseException:
            with self._books:
                self._defined = before
                if taken is not None and name in before:
                    self._cursors.advance(name, taken.epoch, taken.about)
            self.wake()
            raise
        self._retire([name])  # it is about something else now

    @contextmanager
    def altering(self, definition: SinkDefinition, *, anew: bool) -> Iterator[None]:
        """Know a sink by other options, if the commit inside succeeds.

        Args:
            definition: what it is then.
            anew: whether it starts from the beginning; otherwise it goes on where it is.
        """
        if anew:
            with self._anew(definition):
                yield
            return
        before = self._defined
        with self._books:
            self._defined = {**before, definition.name: definition}
        try:
            yield
        except BaseException:
            self._defined = before
            self.wake()
            raise
        self._retire([definition.name])

    def connect(self, sink: SinkDefinition, connector: SinkConnector) -> None:
        """Let a sink have what it has not taken, through a connector.

        Connectors are built outside of the turn: meanwhile the sink may have been dropped. Then
        this one is closed.
        """
        if self._defined.get(sink.name) is sink:
            self._retire([sink.name])
            self._put(sink, connector)
        else:
            end_aside(sink.name, connector)

    def _put(self, sink: SinkDefinition, connector: SinkConnector | None) -> None:
        """Let a sink have a thread; it begins when another one of its name has ended."""
        with self._books:
            stored = self._stored(sink, self._cursors.get(sink.name))
            after = next((e for e in reversed(self._ending) if e.name == sink.name), None)
            made = Outlet(sink, self._parts, opened(stored), connector, after)
            self._outlets = {**self._outlets, sink.name: made}
        made.runner.start()

    def attach(self, name: str, relation: str, connector: SinkConnector) -> bool:
        """Give a sink of Python code its code again; say whether it is known."""
        known, outlet = self._defined.get(name), self._outlets.get(name)
        if (
            known is None
            or outlet is None
            or (known.relation, known.connector) != (relation, OBJECT)
        ):
            return False
        outlet.connector = connector
        outlet.runner.wake()
        return True

    @contextmanager
    def removing(self, names: Iterable[str]) -> Iterator[None]:
        """Forget sinks, if the commit inside succeeds; what they have written stays."""
        before, gone = self._defined, set(names)
        with self._books:  # from now on their cursors stay where they are
            self._defined = {name: each for name, each in before.items() if name not in gone}
        try:
            yield
        except BaseException:
            self._defined = before
            self.wake()
            raise
        self._retire(gone)
        self.forget_cursors()

    def forget_cursors(self) -> None:
        """Forget how far sinks had come that were removed, now that this is committed."""
        with self._books:
            self._cursors.keep_only(self._defined)

    def of(self, relations: Iterable[str]) -> list[str]:
        """Return the sinks of some relations."""
        wanted = set(relations)
        return [each.name for each in self.sinks() if each.relation in wanted]

    def tapped(self) -> frozenset[str]:
        """Return the relations whose changes some sink wants."""
        return frozenset(each.relation for each in self.sinks())

    @property
    def holds_any(self) -> bool:
        """Whether there is a sink that no epoch may run away from."""
        return any(each.rule.holds for each in self._outlets.values())

    @property
    def names(self) -> frozenset[str]:
        """The names of all sinks."""
        return frozenset(self._defined)

    def definition(self, name: str) -> SinkDefinition:
        """Return a sink that there is."""
        return self._defined[name]

    def connector(self, name: str) -> SinkConnector | None:
        """Return what a sink writes through; None if it is away."""
        outlet = self._outlets.get(name)
        return None if outlet is None else outlet.connector

    # Where they stand

    def cursor(self, name: str) -> int | None:
        """Return the last epoch that a sink has taken.

        A cursor from before it began is that of another one of its name, which a restore replaced.
        """
        with self._books:
            found = self._cursors.get(name)
        known = self._defined.get(name)
        if found is None or (known is not None and found.epoch < known.from_epoch):
            return None
        return found.epoch

    def status(self, name: str) -> SinkStatus:
        """Return where a sink stands, as it is shown."""
        return self._status(self._defined[name])

    def statuses(self) -> dict[str, SinkStatus]:
        """Return where each sink stands, as it is shown."""
        return {each.name: self._status(each) for each in self.sinks()}

    def _status(self, definition: SinkDefinition) -> SinkStatus:
        """Return where a sink stands; that of another process stands where it wrote it down."""
        outlet, reach = self._outlets.get(definition.name), self._reach(definition)
        if outlet is None:
            with self._books:
                found = self._cursors.get(definition.name)
            return stored_status(found, definition.from_epoch, reach)
        taken, next_try = self.cursor(definition.name), self._next_try(outlet.state)
        lag = lag_of(taken, reach, definition.from_epoch)
        return shown(outlet.state, taken, lag, next_try, outlet.away)

    def pause(self, name: str) -> None:
        """Let a sink not be called until it is resumed, also after the database is opened again."""
        self._change(name, SinkState.paused)

    def resume(self, name: str) -> None:
        """Let a sink be called again, at once; return when it is level, or has failed.

        What it missed while its epochs were not kept comes as one change, behind the epoch that may
        have been in its hands.
        """
        reach = self._reach(self._defined[name])
        self._change(name, lambda state: state.resumed(reach))
        outlet = self._outlets.get(name)
        if outlet is not None:
            outlet.is_slow = False
            self.settle([name])

    def _change(self, name: str, change: Change) -> None:
        outlet = self._outlets.get(name)
        if outlet is not None:
            self.note(outlet, change)
            outlet.runner.wake()

    def needs(self) -> Iterator[EpochNeed]:
        """Yield what is still needed to work out what a sink has not taken."""
        for each in self.sinks():
            taken, outlet = self.cursor(each.name), self._outlets.get(each.name)
            start = each.from_epoch if taken is None else taken
            yield EpochNeed(each.relation, start, is_away=_is_gone(each, outlet))

    def committed(self) -> None:
        """Let sinks see that something was committed; suspend those that are too far behind."""
        for outlet in self._outlets.values():
            lag = self._lag(outlet)
            if outlet.state.judged(lag, outlet.rule) != outlet.state and not _is_code_gone(outlet):
                self._suspend(outlet, lag)
        self.wake()

    def _suspend(self, outlet: Outlet, lag: int) -> None:
        try:
            self.note(outlet, lambda state: state.judged(lag, outlet.rule))
        except Exception as error:
            _LOG.warning('the state of sink "%s" cannot be kept: %s', outlet.name, error)
        _LOG.warning('sink "%s" is suspended: %s', outlet.name, outlet.state.reason)

    def _lag(self, outlet: Outlet) -> int:
        taken = self.cursor(outlet.name)
        before = outlet.definition.from_epoch - 1 if taken is None else taken
        return outlet.state.lag(before, self._reach(outlet.definition))

    def _reach(self, definition: SinkDefinition) -> int:
        return self._log.reach(self._snapshot(), definition.relation)

    def is_level(self, names: Iterable[str] | None = None) -> bool:
        """Whether every sink that has a connector has taken all there is.

        Args:
            names: the sinks that count, then with a connector or without; all by default.
        """
        snapshot, outlets = self._snapshot(), self._outlets
        if names is not None:
            return not any(outlets[each].lags(snapshot) for each in names if each in outlets)
        return not any(e.connector is not None and e.lags(snapshot) for e in outlets.values())

    # Waiting for them

    @property
    def is_sink(self) -> bool:
        """Whether the caller is a sink that is being called."""
        return any(each.runner.is_mine for each in (*self._outlets.values(), *self._ending))

    def wake(self) -> None:
        """Let all sinks look up."""
        for each in self._outlets.values():
            each.runner.wake()

    def settle(self, names: Iterable[str] | None = None) -> None:
        """Return when sinks that keep up have taken all that is committed now, or too soon.

        One that is not done when the patience is over is slow: nobody waits for it until it is
        level again. Nobody waits for one that fails, is paused, or is the caller.

        Args:
            names: the sinks that count; all by default.
        """
        if self._held or self.is_sink:
            return
        snapshot, until = self._snapshot(), monotonic() + self.limits.wait
        known = tuple(self._outlets.values())
        for each in known if names is None else [e for e in known if e.name in set(names)]:
            each.wait_level(snapshot, until)

    def finish(self) -> dict[str, SinkStatus]:
        """Wait for sinks as long as they get on; return those that have not taken all."""
        for each in self._outlets.values():
            before: int | None = -1
            while before != (before := self.cursor(each.name)):
                each.is_slow = False
                if each.wait_level(self._snapshot(), monotonic() + self.limits.timeout):
                    break
        return {name: each for name, each in self.statuses().items() if each.lag_epochs}

    def await_first(self, sink: SinkDefinition) -> None:
        """Return when a new sink has all rows that its relation had, or is slow.

        Raises:
            ConnectorError: it could not take them.
        """
        outlet = self._outlets.get(sink.name)
        if outlet is None or outlet.definition is not sink:
            return
        has_all = outlet.wait_until(
            lambda: self.cursor(sink.name) is not None, monotonic() + self.limits.wait
        )
        if not has_all and outlet.error is not None and self.cursor(sink.name) is None:
            raise ConnectorError(sink.name, reason_of(outlet.error)) from outlet.error
        self.settle([sink.name])

    def bring_level(self, names: Iterable[str], what: str) -> None:
        """Wait until some sinks have taken all that is committed, for something that needs it.

        Raises:
            SinkBehind: one fails, is stopped, is the caller, or takes longer than the timeout.
        """
        until = monotonic() + self.limits.timeout
        snapshot = self._snapshot()
        for name in names:
            outlet = self._outlets.get(name)
            if outlet is not None and outlet.lags(snapshot):
                outlet.is_slow = False
                if not outlet.wait_level(snapshot, until):
                    found = self.status(name)
                    raise SinkBehind(name, what, found.lag_epochs, found.state, found.reason or "")

    def holding(self) -> tuple[str, int] | None:
        """Return a sink that no epoch may run away from, and how far behind it is."""
        for each in self._outlets.values():
            if each.rule.holds and holds(each.state, lag := self._lag(each), each.rule):
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
            status = self.status(found[0])
            raise SinkHolds(found[0], found[1], status.state, status.reason or "")

    # For the sinks

    def view(self, outlet: Outlet) -> Snapshot | None:
        """Return what a sink may be told of now; None if it is not to be called."""
        with self._books:  # whoever holds sinks has it before anything is shown that is not whole
            is_there = self._defined.get(outlet.name) is outlet.definition
            is_there = is_there and self._outlets.get(outlet.name) is outlet
            return self._snapshot() if is_there and not self._held else None

    def note(self, outlet: Outlet, change: Change, epoch: int | None = None) -> bool:
        """Note where a sink stands, and an epoch it has taken; False if it is not there any more.

        In memory it is noted in any case; an error says that it is not on disk.
        """
        name = outlet.name
        with self._books:
            definition = outlet.definition
            # One that was dropped meanwhile, and another one of its name, have no such cursor.
            if self._defined.get(name) is not definition or self._outlets.get(name) is not outlet:
                return False
            found = self._cursors.get(name)
            taken = definition.from_epoch - 1
            if found is not None and found.epoch >= definition.from_epoch:
                taken = found.epoch
            state = change(outlet.state)
            about = state.about(definition.from_epoch, self._next_try(state))
            if epoch is None:
                outlet.state = state
            self._cursors.advance(name, taken if epoch is None else epoch, about)
            outlet.state = state
        if epoch is not None and outlet.rule.holds:
            self.on_room()
        return True

    def _stored(self, definition: SinkDefinition, found: Cursor | None) -> SinkState:
        about = found.about if found is not None else {}
        return stored_state(about, definition.from_epoch)

    def _next_try(self, state: SinkState) -> int | None:
        if not state.is_failing:
            return None
        return self._wall() + int(1000 * max(0.0, state.retry_at - self._clock()))

    # How they end

    def _retire(self, names: Iterable[str]) -> None:
        """Let sinks end, each after what it is doing; nobody waits for that."""
        gone = set(names)
        with self._books:
            ended = [each for name, each in self._outlets.items() if name in gone]
            self._outlets = {n: each for n, each in self._outlets.items() if n not in gone}
            self._ending = (*(e for e in self._ending if not e.runner.is_over), *ended)
        for each in ended:
            each.runner.stop()

    def close_retired(self) -> None:
        """Wait until connectors are closed that are no longer wanted, for a moment.

        One that is being called is closed when that is over.
        """
        until = monotonic() + self.limits.wait
        for each in () if self.is_sink else self._ending:
            if not each.doing:
                each.runner.join(until - monotonic())
        with self._books:
            self._ending = tuple(each for each in self._ending if not each.runner.is_over)

    def close(self) -> None:
        """Let all of them end, after what they are writing; who does not come back is left behind.

        Those that keep up get what is committed first. One that is known to be slow is not waited
        for: what it has not taken comes to it when the database is opened again.
        """
        self.settle()
        with self._books:
            self._held += 1
            self._defined = {}
        self._retire(self._outlets)
        until = monotonic() + self.limits.wait
        for each in self._ending:
            left = 0.0 if each.is_slow and each.doing else until - monotonic()
            if not each.runner.join(left) and not each.runner.is_mine:
                _LOG.warning(
                    'closed without sink "%s", which is %s', each.name, each.doing or "busy"
                )


def _is_code_gone(outlet: Outlet) -> bool:
    """Whether a sink of Python code waits for its code."""
    return outlet.definition.connector == OBJECT and outlet.connector is None


def _is_gone(definition: SinkDefinition, outlet: Outlet | None) -> bool:
    """Whether a sink takes all it has missed at once when it is back."""
    if outlet is None:
        return definition.connector == OBJECT
    return outlet.state.mode is SinkMode.SUSPENDED or _is_code_gone(outlet)
