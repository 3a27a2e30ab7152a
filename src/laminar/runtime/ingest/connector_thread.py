"""Where a connector's code runs: on a thread of its own that nobody waits for without an end.

It is a daemon, so a process can exit whatever a connector does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from laminar.connectors import Source, close
from laminar.errors import ConnectorHung
from laminar.errors.dag import ConnectorError
from laminar.errors.secrets import scrub, traceback_of
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.source_options import parse

CLOSING_SECONDS = 5.0
"""So long a connector may take to close, or to come back from the call before that."""

_LOG = logging.getLogger("laminar.sources")
_T = TypeVar("_T")
_Job = tuple[Context, Callable[[], Any], "Future[Any]"]


class Left(Exception):
    """A connector was left meanwhile: what it would have said is wanted by nobody."""


def call_seconds(definition: TableDefinition, default_ms: int) -> float:
    """Return how long a call into the connector of a table may take.

    Args:
        definition: the table.
        default_ms: what counts if it does not say.
    """
    options = parse(definition.options, pushed=definition.connector is None)
    return (options.call_timeout_ms or default_ms) / 1000


def in_background(name: str, work: Callable[[], _T]) -> Future[_T]:
    """Run something on a daemon thread of its own."""
    future: Future[_T] = Future()
    job = (copy_context(), work, future)
    threading.Thread(target=_do, args=job, name=name, daemon=True).start()
    return future


class ConnectorThread:
    """Calls into one connector, one after the other, each with a deadline.

    Law: no call is made while one is out that has missed its deadline. So a connector that hangs
    holds one thread and one call, however often it is asked.

    Args:
        source: whose connector it is.
        seconds: how long a call may take.
    """

    def __init__(self, source: str, seconds: float) -> None:
        self._source = source
        self.seconds = seconds
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._late: tuple[str, Future[Any]] | None = None
        self._gate = threading.Lock()  # that nothing is asked of it once it is to close
        self._is_ended = False
        self.hung = 0
        """How many calls have missed their deadline."""

    @property
    def is_out(self) -> bool:
        """Whether a call is out that was left alone."""
        return self._late is not None and not self._late[1].done()

    def call(self, what: str, work: Callable[[], _T], seconds: float | None = None) -> _T:
        """Do something with the connector.

        Args:
            what: the call, for who reads that it hangs.
            work: makes it.
            seconds: how long it may take, if not as long as others.

        Raises:
            ConnectorHung: it, or one before it, has not returned in time.
            Left: it is closed, or about to be.
        """
        late, limit = self._late, self.seconds if seconds is None else seconds
        if late is not None and not late[1].done():
            raise ConnectorHung(self._source, late[0], self.seconds)
        with self._gate:
            if self._is_ended:
                raise Left(self._source)
            future = self._put(work)
        if not wait([future], limit).done:
            self._late = (what, future)
            self.hung += 1
            raise ConnectorHung(self._source, what, limit)
        found: _T = future.result()
        return found

    def end(self, closing: Callable[[], object]) -> None:
        """Close the connector as the last thing that is done with it.

        Who calls this waits for a moment, and not at all if a call is out: then the connector is
        closed once that comes back.
        """
        was_out = self.is_out
        with self._gate:
            future = self._put(closing)
            self._jobs.put(None)
            self._is_ended = True
        if not was_out and wait([future], min(self.seconds, CLOSING_SECONDS)).done:
            future.result()
            return
        _LOG.warning("a connector that hangs was left alone", extra={"source": self._source})

    def _put(self, work: Callable[[], _T]) -> Future[_T]:
        future: Future[_T] = Future()
        if self._thread is None:
            name = f"laminar-connector-{self._source}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._jobs.put((copy_context(), work, future))
        return future

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            _do(*job)
            del job  # nothing of it is held while the next one is waited for


class ConnectorThreads:
    """Where the connectors of a database run: one thread for each, whatever ways in it has.

    Args:
        default_ms: how long a call may take if a table does not say.
    """

    def __init__(self, default_ms: Callable[[], int]) -> None:
        self._default_ms = default_ms
        self._known: dict[int, tuple[Source, ConnectorThread]] = {}

    def of(self, definition: TableDefinition, source: Source) -> ConnectorThread:
        """Return where the code of a connector runs, with the deadline that its table says now."""
        seconds = call_seconds(definition, self._default_ms())
        _, thread = self._known.setdefault(
            id(source), (source, ConnectorThread(definition.name, seconds))
        )
        thread.seconds = seconds
        return thread

    def heed(self, tables: Mapping[str, TableDefinition], sources: Mapping[str, Source]) -> None:
        """Let calls take as long as tables and settings say now."""
        for name, source in sources.items():
            if id(source) in self._known and name in tables:
                self.of(tables[name], source)

    def hangs(self, source: Source) -> bool:
        """Whether a call is out that a connector was left alone with."""
        found = self._known.get(id(source))
        return found is not None and found[1].is_out

    def close(self, source: Source) -> None:
        """Close a connector that no way leads from any more; one that hangs is left alone."""
        _, thread = self._known.pop(id(source), (source, None))
        if thread is None:
            thread = ConnectorThread("a source that was left", CLOSING_SECONDS)
        thread.end(partial(close, source))

    def part_from(self, source: Source) -> None:
        """Ask nothing more of an object of Python code, which is for whoever made it to close."""
        _, thread = self._known.pop(id(source), (source, None))
        if thread is not None:
            thread.end(lambda: None)


def _do(context: Context, work: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(context.run(work))
    except Exception as error:
        future.set_exception(scrub(error))
    except BaseException as error:  # such as SystemExit: nobody else would hear of it
        scrub(error)
        lost = ConnectorError("a connector", error)
        lost.__cause__ = error
        future.set_exception(lost)


def closed_when_done(future: Future[_T], closing: Callable[[_T], object]) -> None:
    """Close what a call makes that nobody waits for any more."""

    def ended(done: Future[_T]) -> None:
        if done.exception() is None:
            try:
                closing(done.result())
            except Exception as error:
                _LOG.warning("a connector could not be closed: %s", traceback_of(error))

    future.add_done_callback(partial(ended))
