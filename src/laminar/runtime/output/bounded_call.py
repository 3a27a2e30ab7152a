"""A call of a user's code that may never come back: on a thread of its own, with a bound."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from laminar.connectors.sink import SinkConnector, close_sink
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


def end_aside(name: str, connector: SinkConnector) -> None:
    """Close a connector that was built for nothing; nobody waits for that."""

    def end() -> None:
        try:
            close_sink(connector)
        except BaseException as error:
            _LOG.warning('sink "%s" could not be closed: %s', name, error)

    threading.Thread(target=end, name=f"laminar sink {name} (end)", daemon=True).start()
