"""What Java prints on standard error: handed on, except for what it says on every start."""

from __future__ import annotations

import os
import threading

_NOISE = (b"WARNING: Using incubator modules:",)
"""Said by Java before any setting of ours is read, about a module that Spark always asks for."""


class JavaErrors:
    """The standard error of a Java process that is about to start: give it `theirs`."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.pipe()

    def forward(self) -> None:
        """Let its lines appear on ours, now that the process has started."""
        os.close(self.theirs)
        # Not before: a process that is started beside a running thread is warned about.
        threading.Thread(target=self._copy, name="laminar-java", daemon=True).start()

    def last_words(self) -> str:
        """Return the sentence that a process which did not start ended with."""
        os.close(self.theirs)
        with os.fdopen(self._ours, "rb") as pipe:
            lines = [line for line in pipe.read().splitlines() if not line.startswith(_NOISE)]
        said = [line.decode("utf-8", "replace").strip() for line in lines]
        thrown = [line for line in said if line.startswith("Exception in thread")]
        return (thrown or said or ["it said nothing"])[0].rpartition("Exception: ")[2]

    def _copy(self) -> None:
        with os.fdopen(self._ours, "rb") as lines:
            for line in lines:
                if not line.startswith(_NOISE):
                    os.write(2, line)
