"""Sinks: every epoch reaches them once it is committed, in order, none is lost.

Each sink has a durable cursor and a thread of its own (`Outlet`), whether SQL defined it or Python
code hands it in. What it has not taken yet (the last epoch, or more after a crash, a failure, or a
pause of what it reads) comes from the log of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any

from laminar.connectors import sink as sinks_at_large
from laminar.connectors.sink import SinkConnector, SinkSpec, create_sink
from laminar.errors import NotSupported, RelationExists
from laminar.model.schema import Field, Schema
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.row_keys import row_key
from laminar.runtime.catalog.settings import wall_clock
from laminar.runtime.output.bounded_call import end_aside
from laminar.runtime.output.outlet import Change, Outlet, OutletParts
from laminar.runtime.output.sink_books import SinkBooks
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sink_progress import SinkProgress
from laminar.runtime.output.sink_state import SinkState
from laminar.runtime.output.sink_waits import SinkWaits
from laminar.store import durable_files

if TYPE_CHECKING:
    from laminar.runtime.history.differences import Differences
    from laminar.runtime.history.timeline import Snapshot
    from laminar.runtime.output.changelog import DagChangelogPropagator
    from laminar.store.cursors import CursorStore


class Publisher:
    """All sinks of a database: how they come, change, pause and end.

    Which sinks there are is changed in the writer's turn. A connector is closed by the thread of
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
        self.books = SinkBooks(snapshot, cursors, clock, wall)
        """Which sinks there are, and how far each has come."""
        self.progress = SinkProgress(self.books, log, snapshot)
        """Where each of them stands."""
        self.waits = SinkWaits(self.books, self.progress, snapshot)
        """Waits for them."""
        self._parts = OutletParts(
            self.books,
            self,
            log,
            between or (lambda: log.between),
            clock,
            lambda: self.waits.limits.backoff,
        )
        sinks_at_large.reached = lambda point: durable_files.failpoint(point)

    # With their database

    def to_json(self) -> list[dict[str, Any]]:
        """Return the definitions as plain values."""
        return [asdict(each) for each in self.books.sinks()]

    def load(self, data: Iterable[Mapping[str, Any]]) -> None:
        """Know the sinks of another state, and no others; one that stays goes on."""
        before = {each.name: each.built_from for each in self.books.sinks()}
        found = [SinkDefinition(**entry) for entry in data]
        same = {each.name for each in found if before.get(each.name) == each.built_from}
        self.books.know({each.name: each for each in found}, same)
        self.books.retire(self.books.outlets.keys() - same)

    def open(self) -> None:
        """Let each sink have its thread, which builds its connector; none is waited for.

        Those of Python code wait until it is back.
        """
        for each in self.books.sinks():
            if each.name not in self.books.outlets:
                self._put(each, None)
        self.books.forget_cursors()

    def close(self) -> None:
        """Let all of them end, after what they are writing; who does not come back is left behind.

        Those that keep up get what is committed first. One that is known to be slow is not waited
        for: what it has not taken comes to it when the database is opened again.
        """
        self.waits.settle()
        self.books.retire_all()
        self.waits.leave()

    # Their connectors

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
        others = (*self.books.outlets.values(), *self.books.ending)
        for other in others if target is not None else ():
            is_ending = other.name == name and other.runner.is_stopping
            if other.name == name and not is_ending:
                continue
            if getattr(other.connector, "target", None) == target and not other.runner.is_over:
                raise NotSupported(
                    f'a second sink for {target}, to which "{other.name}" writes',
                    "choose another place",
                )

    def connector(self, name: str) -> SinkConnector | None:
        """Return what a sink writes through; None if it is away."""
        outlet = self.books.outlets.get(name)
        return None if outlet is None else outlet.connector

    def connect(self, sink: SinkDefinition, connector: SinkConnector) -> None:
        """Let a sink have what it has not taken, through a connector.

        Connectors are built outside of the turn: meanwhile the sink may have been dropped. Then
        this one is closed.
        """
        if self.books.defined.get(sink.name) is sink:
            self.books.retire([sink.name])
            self._put(sink, connector)
        else:
            end_aside(sink.name, connector)

    def _put(self, sink: SinkDefinition, connector: SinkConnector | None) -> None:
        """Let a sink have a thread; it begins when another one of its name has ended."""

        def made(state: SinkState, after: Outlet | None) -> Outlet:
            return Outlet(sink, self._parts, state, connector, after)

        self.books.enter(sink, made).runner.start()

    def attach(self, name: str, relation: str, connector: SinkConnector) -> bool:
        """Give a sink of Python code its code again; say whether it is known."""
        known, outlet = self.books.defined.get(name), self.books.outlets.get(name)
        if (
            known is None
            or outlet is None
            or (known.relation, known.connector) != (relation, OBJECT)
        ):
            return False
        outlet.connector = connector
        outlet.runner.wake()
        return True

    # What statements do

    @contextmanager
    def adding(self, definition: SinkDefinition) -> Iterator[None]:
        """Know a sink, if the commit inside succeeds; nothing comes to it before `connect`."""
        if definition.connector != OBJECT and definition.name in self.books.defined:
            raise RelationExists(definition.name)
        with self.altering(definition, anew=True):  # one of Python code is about something else now
            yield

    @contextmanager
    def altering(self, definition: SinkDefinition, *, anew: bool) -> Iterator[None]:
        """Know a sink by other options, if the commit inside succeeds.

        Args:
            definition: what it is then.
            anew: whether it starts from the beginning; otherwise it goes on where it is.
        """
        name = definition.name
        found = {**self.books.defined, name: definition}
        with self.books.knowing(found, anew=name if anew else None):
            yield
        self.books.retire([name])

    @contextmanager
    def removing(self, names: Iterable[str]) -> Iterator[None]:
        """Forget sinks, if the commit inside succeeds; what they have written stays."""
        gone = set(names)
        left = {name: each for name, each in self.books.defined.items() if name not in gone}
        with self.books.knowing(left):
            yield
        self.books.retire(gone)
        self.books.forget_cursors()

    def pause(self, name: str) -> None:
        """Let a sink not be called until it is resumed, also after the database is opened again."""
        self._change(name, SinkState.paused)

    def resume(self, name: str) -> None:
        """Let a sink be called again, at once; return when it is level, or has failed.

        What it missed while its epochs were not kept comes as one change, behind the epoch that may
        have been in its hands.
        """
        reach = self.progress.reach(self.books.defined[name])
        self._change(name, lambda state: state.resumed(reach))
        outlet = self.books.outlets.get(name)
        if outlet is not None:
            outlet.is_slow = False
            self.waits.settle([name])

    def _change(self, name: str, change: Change) -> None:
        outlet = self.books.outlets.get(name)
        if outlet is not None:
            self.books.note(outlet, change)
            outlet.runner.wake()
