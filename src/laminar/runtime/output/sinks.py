"""Sinks: every epoch reaches them once it is committed, in order, none is lost.

Each sink has a durable cursor, whether SQL defined it or Python code hands it in. What it has not
taken yet (the last epoch, or more after a crash, a failure, or a pause of what it reads) comes from
the log of changes. Sinks are a user's code: they are called outside of the writer's turn, by one
thread at a time.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.connectors import sink as sinks_at_large
from laminar.connectors.sink import (
    AT_LEAST_ONCE,
    SinkConnector,
    SinkSpec,
    close_sink,
    create_sink,
)
from laminar.errors import ConnectorError, LaminarError, NotSupported, RelationExists, WriterBusy
from laminar.model.schema import Field, Schema
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.row_keys import row_key
from laminar.runtime.history.turn import WriterTurn
from laminar.runtime.output.changelog import EpochNeed
from laminar.runtime.spark.error_translation import first_sentence, is_gone
from laminar.runtime.spark.session import suit
from laminar.store import durable_files
from laminar.store.cursors import CursorStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.history.differences import ChangeFrame
    from laminar.runtime.history.timeline import Snapshot
    from laminar.runtime.output.changelog import DagChangelogPropagator

_LOG = logging.getLogger("laminar.sinks")


@dataclass(frozen=True, slots=True)
class SinkDefinition:
    """A sink; it starts with all rows its relation has at the epoch it is created in."""

    name: str
    relation: str
    connector: str
    options: Mapping[str, str] = field(default_factory=dict)
    from_epoch: int = 0
    promise: str = AT_LEAST_ONCE
    sql: str = ""

    @property
    def built_from(self) -> tuple[object, ...]:
        """What its connector is built from: as long as that stays, the connector may stay."""
        return self.name, self.relation, self.connector, dict(self.options)


class Publisher:
    """All sinks of a database, and how far each has come.

    Which sinks there are is changed in the writer's turn, and which have a connector under
    `_books`; both are replaced as a whole, so whoever reads them needs no lock. Connectors that are
    no longer wanted are closed by whoever calls them: not while one of them writes, and not in the
    writer's turn.

    Args:
        defined: what they read.
        log: tells what a sink has not taken.
        snapshot: what readers see now.
        cursors: how far each sink has come, on disk.
        root: the database.
    """

    def __init__(
        self,
        defined: Defined,
        log: DagChangelogPropagator,
        snapshot: Callable[[], Snapshot],
        cursors: CursorStore,
        root: Path,
    ) -> None:
        self._relations = defined
        self._log = log
        self._snapshot = snapshot
        self._defined: Mapping[str, SinkDefinition] = {}
        self._connectors: Mapping[str, SinkConnector] = {}
        self._cursors = cursors
        self._books = threading.Lock()
        self.turn = WriterTurn(root)
        """Whoever calls sinks has it; nobody asks for it who has the writer's turn."""
        self._unopened: frozenset[str] = frozenset()
        self._writing = ""
        self._has_more = False
        self._retired: deque[SinkConnector] = deque()
        sinks_at_large.reached = lambda point: durable_files.failpoint(point)

    # Which there are

    def sinks(self) -> Sequence[SinkDefinition]:
        """Return all sinks, first defined first."""
        return tuple(self._defined.values())

    def to_json(self) -> list[dict[str, Any]]:
        """Return the definitions as plain values."""
        return [asdict(each) for each in self.sinks()]

    def load(self, data: Iterable[Mapping[str, Any]]) -> None:
        """Know the sinks of another state, and no others; one that stays keeps its connector."""
        before = {each.name: each.built_from for each in self.sinks()}
        found = [SinkDefinition(**entry) for entry in data]
        self._defined = {each.name: each for each in found}
        same = {each.name for each in found if before.get(each.name) == each.built_from}
        self._retire(self._connectors.keys() - same)

    def open(self) -> None:
        """Build the connectors that are missing; those of Python code wait until it is back.

        One that cannot be built keeps no other from its own; then the first error is raised.
        """
        failed: dict[str, Exception] = {}
        for each in self.sinks():
            if each.connector != OBJECT and each.name not in self._connectors:
                try:
                    self.connect(each, self.build(each))
                except Exception as error:
                    failed[each.name] = error
        self._unopened = frozenset(failed)
        self.close_retired()
        self.forget_cursors()
        for first in failed.values():
            raise first

    def build(self, definition: SinkDefinition) -> SinkConnector:
        """Return the connector of a definition, which checks its options."""
        catalog = self._relations.catalog
        shape = catalog.shape(definition.relation)
        fields = tuple(map(Field, shape.columns, shape.types))
        key = row_key(definition.relation, catalog.relations.by_name, catalog.primary_keys())
        spec = SinkSpec(
            definition.name, definition.relation, Schema(fields), definition.options, key
        )
        return create_sink(definition.connector, spec)

    def refuse_shared(self, connector: SinkConnector) -> None:
        """Refuse a sink that would write where another one does."""
        target = getattr(connector, "target", None)
        for name, other in self._connectors.items():
            if target is not None and getattr(other, "target", None) == target:
                raise NotSupported(
                    f'a second sink for {target}, to which "{name}" writes', "choose another place"
                )

    @contextmanager
    def adding(self, definition: SinkDefinition) -> Iterator[None]:
        """Know a sink, if the commit inside succeeds; nothing comes to it before `connect`."""
        before, name = self._defined, definition.name
        if definition.connector != OBJECT and name in before:
            raise RelationExists(name)
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
            raise
        self._retire([name])  # one of Python code that is about something else now

    def connect(
        self, sink: SinkDefinition, connector: SinkConnector, *, instead: bool = False
    ) -> None:
        """Let a sink have what it has not taken, through a connector.

        Connectors are built outside of the turn: meanwhile the sink may have been dropped, or
        somebody else may have connected it. Then this one is not wanted, unless it is given
        `instead` of any other.
        """
        with self._books:
            unwanted = other = self._connectors.get(sink.name)
            if self._defined.get(sink.name) is sink and (other is None or instead):
                self._connectors = {**self._connectors, sink.name: connector}
            else:
                unwanted = connector
        if unwanted is not None:
            self._retired.append(unwanted)

    def attach(self, name: str, relation: str, connector: SinkConnector) -> bool:
        """Give a sink of Python code its code again; say whether it is known."""
        known = self._defined.get(name)
        if known is None or (known.relation, known.connector) != (relation, OBJECT):
            return False
        with self._books:
            self._connectors = {**self._connectors, name: connector}
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
            raise
        self._retire(gone)
        self.forget_cursors()

    def forget_cursors(self) -> None:
        """Forget how far sinks had come that were removed, now that this is committed."""
        with self._books:
            self._cursors.keep_only(self._defined)

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

    def of(self, relations: Iterable[str]) -> list[str]:
        """Return the sinks of some relations."""
        wanted = set(relations)
        return [each.name for each in self.sinks() if each.relation in wanted]

    def tapped(self) -> frozenset[str]:
        """Return the relations whose changes some sink wants."""
        return frozenset(each.relation for each in self.sinks())

    def needs(self) -> Iterator[EpochNeed]:
        """Yield what is still needed to work out what a sink has not taken."""
        for each in self.sinks():
            taken = self.cursor(each.name)
            start = each.from_epoch if taken is None else taken
            yield EpochNeed(each.relation, start, is_away=each.name not in self._connectors)

    # What they get

    def publish(self) -> None:
        """Hand all that is committed to all sinks; one that fails keeps nothing from the others.

        One thread at a time does so. Another one waits for it, and usually finds that all is out.
        What a sink itself commits while it writes comes to all of them behind that.

        Raises:
            ConnectorError: of the first sink that failed, or of one that still writes when the
                patience for it is over; what is committed stays, and comes to it later.
        """
        if self.turn.is_mine:
            self._has_more = True
            return
        failed: list[Exception] = []
        if self._unopened:  # when the database went back; since then it gets nothing
            try:
                self.open()
            except Exception as error:
                failed.append(error)
        if not self.is_level():
            with self._calling():
                self._publish()
        if failed:
            raise failed[0]

    def hand_over(self, name: str) -> None:
        """Hand a sink all that it has not taken; see `publish`."""
        with self._calling():
            if name in self._defined:
                self._catch_up(self._defined[name])

    def is_level(self) -> bool:
        """Whether every sink that has a connector has taken all there is."""
        snapshot = self._snapshot()
        return not any(self._lags(each, snapshot) for each in self.sinks())

    def _lags(self, sink: SinkDefinition, snapshot: Snapshot) -> bool:
        if sink.name not in self._connectors:
            return False
        taken = self.cursor(sink.name)
        return taken is None or taken < self._log.reach(snapshot, sink.relation)

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Have the sinks for oneself."""
        try:
            with self.turn("publishing"):
                yield
        except WriterBusy as error:
            reason = f"it is being written to since {error.seconds:.0f} s, by another thread"
            raise ConnectorError(self._writing or "sinks", reason) from error
        finally:
            self.close_retired()

    def _publish(self) -> None:
        failed: list[Exception] = []
        self._has_more = True
        while self._has_more:
            self._has_more = False
            for each in self.sinks():
                try:
                    self._catch_up(each)
                except Exception as error:
                    if self._defined.get(each.name) is each:  # not dropped meanwhile
                        failed.append(error)
        if failed:
            raise failed[0]

    def _catch_up(self, sink: SinkDefinition) -> None:
        log, snapshot = self._log, self._snapshot()
        if not self._lags(sink, snapshot):
            return
        taken = self.cursor(sink.name)
        if taken is None:
            taken = sink.from_epoch
            if not self._take(sink, taken, log.between.content(snapshot, sink.relation, taken)):
                return
        for epoch in log.epochs(snapshot, sink.relation, taken):
            delta = log.between.delta(snapshot, sink.relation, taken, epoch)
            if not self._take(sink, epoch, delta):
                return
            taken = epoch

    def _take(self, sink: SinkDefinition, epoch: int, delta: ChangeFrame | None) -> bool:
        """Let a sink take an epoch; False if it is not there any more."""
        connector = self._connectors.get(sink.name)
        if connector is None:
            return False
        if delta is not None:
            self.turn.doing(f'sink "{sink.name}" with epoch {epoch}')
            self._writing = sink.name
            suit(delta.frame.sparkSession, changed=delta.rows, held=0)
            try:
                _write(sink, connector, epoch, delta.frame)
            except ConnectorError as error:
                if not isinstance(error.__cause__, Exception) or not is_gone(error.__cause__):
                    raise
                # Somebody committed meanwhile, and other files have the same rows now.
                _write(sink, connector, epoch, delta.again().frame)
        with self._books:
            # One that was dropped meanwhile, and another one of its name, have no such cursor.
            is_there = self._defined.get(sink.name) is sink
            if is_there:
                self._cursors.advance(sink.name, epoch)
        return is_there

    # How they end

    def _retire(self, names: Iterable[str]) -> None:
        gone = set(names)
        with self._books:
            known = self._connectors
            self._connectors = {name: each for name, each in known.items() if name not in gone}
        self._retired += [each for name, each in known.items() if name in gone]

    def close_retired(self) -> None:
        """Close what is no longer wanted; if a sink is being called, its caller does so later."""
        while self._retired and not self.turn.is_mine:
            with self.turn.if_free("closing sinks") as is_mine:
                if not is_mine:
                    return  # who has it looks when it is over
                while self._retired:
                    _close(self._retired.popleft())

    def close(self) -> None:
        """Close all connectors, after what is being written; wait for that as for any writer."""
        if not self.turn.is_mine:
            try:
                with self.turn("closing sinks"):
                    pass
            except WriterBusy as error:
                _LOG.warning("closed while a sink is being written to: %s", error.message)
        with self._books:
            self._defined = {}
        self._retire(self._connectors)
        self.close_retired()


def _write(sink: SinkDefinition, connector: SinkConnector, epoch: int, delta: DataFrame) -> None:
    try:
        durable_files.failpoint("sink.before_publish")
        connector.write(epoch, delta)
        durable_files.failpoint("sink.after_publish")
    except LaminarError as error:
        raise ConnectorError(sink.name, error.message) from error
    except Exception as error:
        raise ConnectorError(sink.name, first_sentence(error)) from error


def _close(connector: SinkConnector) -> None:
    """Close a connector; whoever happens to do it has nothing to do with what goes wrong."""
    try:
        close_sink(connector)
    except Exception as error:
        _LOG.warning("a sink could not be closed: %s", error)
