"""Sources hear how far they were read for good, once an epoch is committed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial

from laminar.connectors.source import AcknowledgedSource, Offset, Source
from laminar.errors.secrets import told
from laminar.runtime.ingest.connector_thread import in_background

SECONDS = 5.0
"""So long whoever ran an epoch waits for a source to hear of it."""

_LOG = logging.getLogger("laminar.sources")


class Acknowledgements:
    """What sources have heard.

    One thread at a time tells them; one that comes meanwhile leaves it to that one, which then
    looks once more. A source that does not come back is left alone until it does.

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
        self._guard = threading.Lock()
        self._again = self._is_telling = False
        self._heard: dict[str, tuple[Source, Offset]] = {}
        self._out: dict[str, Future[object]] = {}

    def tell(self) -> None:
        """Let sources that want to know it hear; whoever calls has no turn and no lock."""
        with self._guard:
            self._again = True
            if self._is_telling:
                return
            self._is_telling = True
        try:
            while self._has_to_tell():
                known = dict(self._sources())
                self._heard = {name: each for name, each in self._heard.items() if name in known}
                self._out = {name: each for name, each in self._out.items() if name in known}
                for name, source in known.items():
                    self._tell(name, source, self._offsets().get(name))
        except BaseException:
            with self._guard:
                self._is_telling = False
            raise

    def _has_to_tell(self) -> bool:
        with self._guard:
            tells, self._again = self._again, False
            self._is_telling = tells
            return tells

    def _tell(self, name: str, source: Source, end: Offset | None) -> None:
        if end is None or not isinstance(source, AcknowledgedSource):
            return
        if self._heard.get(name) == (source, end) or not self._is_back(name):
            return
        call = in_background(f"laminar-offsets-{name}", partial(source.commit_offsets, end))
        self._out[name] = call
        try:
            if not wait([call], SECONDS).done:
                raise TimeoutError(f"it has not come back for {SECONDS:.0f} s")
            call.result()
        except Exception as error:  # the epoch is committed, whatever it says; it hears it again
            _LOG.warning(
                "the source %s did not hear how far it was read: %s", name, told(str(error))
            )
        else:
            self._heard[name] = (source, end)

    def _is_back(self, name: str) -> bool:
        call = self._out.get(name)
        return call is None or call.done()
