"""Sources hear how far they were read for good, once an epoch is committed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from laminar.connectors.source import AcknowledgedSource, Offset, Source
from laminar.errors.secrets import told
from laminar.runtime.ingest.connector_thread import in_background

SECONDS = 5.0
"""So long whoever ran an epoch waits for its sources to hear of it, all of them together."""

_LOG = logging.getLogger("laminar.sources")


class Acknowledgements:
    """What sources have heard.

    Args:
        sources: all that there are.
        offsets: how far they were read for good.
    """

    def __init__(
        self,
        sources: Callable[[], Mapping[str, Source]],
        offsets: Callable[[], Mapping[str, Offset]],
    ) -> None:
        self._sources = sources
        self._offsets = offsets
        self._known = threading.Lock()
        self._hearers: dict[str, _Hearer] = {}

    def tell(self, *, is_waiting: bool = True) -> None:
        """Let sources that want to know it hear; whoever calls has no turn and no lock.

        Args:
            is_waiting: for those that begin to hear it now, a moment.
        """
        calls = {name: call for name, each in self._all().items() if (call := each.wake())}
        if is_waiting:
            for call in wait(calls.values(), SECONDS).not_done:
                slow = next(name for name, each in calls.items() if each is call)
                _LOG.warning(
                    "the source %s has not come back for %g s from hearing how far it was read",
                    slow,
                    SECONDS,
                )

    def _all(self) -> dict[str, _Hearer]:
        with self._known:
            known = self._hearers
            self._hearers = {
                name: found
                if (found := known.get(name)) is not None and found.source is source
                else _Hearer(name, source, self._offsets)
                for name, source in dict(self._sources()).items()
                if isinstance(source, AcknowledgedSource)
            }
            return self._hearers


class _Hearer:
    """One source that hears, on a daemon thread that is there while there is something to hear.

    Law: one call at a time, never with less than before, and the last position is the last said. A
    source that does not come back holds one thread, and hears where things are when it does.
    """

    def __init__(
        self, name: str, source: AcknowledgedSource, offsets: Callable[[], Mapping[str, Offset]]
    ) -> None:
        self.source = source
        self._name = name
        self._offsets = offsets
        self._guard = threading.Lock()
        self._again = self._is_running = False
        self._heard: Offset | None = None

    def wake(self) -> Future[Any] | None:
        """Begin to tell it; None if it knows already, or is being told."""
        if self._news() is None:
            return None
        with self._guard:
            self._again = True
            if self._is_running:
                return None
            self._is_running = True
        return in_background(f"laminar-offsets-{self._name}", self._run)

    def _news(self) -> Offset | None:
        end = self._offsets().get(self._name)
        return None if end == self._heard else end

    def _run(self) -> None:
        while self._has_to_tell():
            end = self._news()
            if end is None:
                continue
            try:
                self.source.acknowledge(end)
            except BaseException as error:  # the epoch is committed, whatever it says
                reason = told(str(error)) or type(error).__name__
                _LOG.warning(
                    "the source %s did not hear how far it was read: %s", self._name, reason
                )
            else:
                self._heard = end

    def _has_to_tell(self) -> bool:
        with self._guard:
            self._is_running, self._again = self._again, False
            return self._is_running
