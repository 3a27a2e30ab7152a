"""A call of a user's code that may never come back: on a thread of its own, with a bound."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from laminar.connectors.sink import SinkConnector, begin_sink, close_sink
from laminar.errors import ConnectorError

_LOG = logging.getLogger("laminar.sinks")
_T = TypeVar("_T")


def bounded(
    name: str, call: Callable[[], _T], at_most: float, late: Callable[[_T], object] | None = None
) -> _T:
    """Return what a call returns, or raise what it raises.

    Args:
        name: the sink, for the error.
        call: a user's code.
        at_most: seconds; what is returned after that nobody wants.
        late: takes what is returned too late.

    Raises:
        ConnectorError: it has not come back in time; its thread is left behind.
    """
    found: Future[_T] = Future()

    def run() -> None:
        try:
            made = call()
        except BaseException as error:
            found.set_exception(error)
        else:
            found.set_result(made)

    threading.Thread(target=run, name=f"laminar sink {name} (begin)", daemon=True).start()
    try:
        return found.result(at_most)
    except TimeoutError as error:
        if found.done() and found.exception() is error:
            raise  # its own
        if late is not None:
            found.add_done_callback(lambda each: each.exception() or late(each.result()))
        reason = f"it has not answered for {at_most:g} s"
        raise ConnectorError(name, reason) from None


def begun(name: str, connector: SinkConnector, at_most: float) -> None:
    """Let a connector begin; one that refuses, or does not answer, is closed when it is done."""

    def begin() -> None:
        try:
            begin_sink(connector)
        except BaseException:
            _close(name, connector)
            raise

    bounded(name, begin, at_most, lambda _: _close(name, connector))


@contextmanager
def kept(name: str, connector: SinkConnector) -> Iterator[None]:
    """Close a connector if what is done with it fails."""
    try:
        yield
    except Exception:
        end_aside(name, connector)
        raise


def end_aside(name: str, connector: SinkConnector) -> None:
    """Close a connector that was built for nothing; nobody waits for that."""
    about = (name, connector)
    threading.Thread(
        target=_close, args=about, name=f"laminar sink {name} (end)", daemon=True
    ).start()


def _close(name: str, connector: SinkConnector) -> None:
    try:
        close_sink(connector)
    except BaseException as error:
        _LOG.warning('sink "%s" could not be closed: %s', name, error)
