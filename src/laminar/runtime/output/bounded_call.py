"""A call of a user's code that may never come back: on a thread of its own, with a bound."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from laminar.connectors.sink import SinkConnector, begin_sink, close_sink
from laminar.errors import ConnectorError
from laminar.errors.secrets import told
from laminar.runtime.ingest.connector_thread import closed_when_done, in_background

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
    found = in_background(f"laminar sink {name} (begin)", call)
    if not wait([found], at_most).done:
        if late is not None:
            closed_when_done(found, late)
        raise ConnectorError(name, f"it has not answered for {at_most:g} s")
    return found.result()


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
    in_background(f"laminar sink {name} (end)", partial(_close, name, connector))


def _close(name: str, connector: SinkConnector) -> None:
    try:
        close_sink(connector)
    except BaseException as error:
        _LOG.warning('sink "%s" could not be closed: %s', name, told(str(error)))
