"""The process that dies in the middle of a group's commit: opens the database, and runs one epoch.

Run as `python -m tests.crash.group_worker STATE POINT TIME`: it kills itself, as kill -9 does, when
it comes to the named point for the so-manyeth time after the database is open.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import laminar
from laminar.store import durable_files

from .worker import shared_session


def main(state: Path, point: str, time: int) -> None:
    with laminar.connect(state, spark=shared_session()) as db:
        seen = 0

        def die(at: str) -> None:
            nonlocal seen
            seen += at == point
            if seen == time and at == point:
                os.kill(os.getpid(), signal.SIGKILL)

        durable_files.failpoint = die
        db.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
