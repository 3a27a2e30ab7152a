"""A database for a command: Spark is started with a word about it, and quietly."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from laminar.session import Database, connect


def open_database(
    state: Path | None,
    master: str | None = None,
    *,
    verbose: bool = False,
    read_only: bool = False,
) -> Database:
    """Open or create the database; None is a temporary one, or the one that is near, to read."""
    # On standard error, where it is in nobody's way, and only for somebody who waits.
    console = Console(stderr=True)
    if verbose or not sys.stderr.isatty():
        return _opened(state, master, verbose=verbose, read_only=read_only)
    with console.status("starting Spark"):
        return _opened(state, master, verbose=verbose, read_only=read_only)


def _opened(state: Path | None, master: str | None, *, verbose: bool, read_only: bool) -> Database:
    from laminar.cli.status import find_state
    from laminar.runtime.spark.session import start_spark

    if read_only:
        state = find_state(state)
    return connect(state, spark=start_spark(master, verbose=verbose), read_only=read_only)
