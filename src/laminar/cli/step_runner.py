"""Runs steps on a database and prints what comes of them: for the shell, for -c, for pipes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from laminar.cli.output import Printer
from laminar.result import Result
from laminar.session import Database
from laminar.sql import Query

_T = TypeVar("_T")


class Runner:
    """A conversation with one database.

    What a statement changes is visible to the ones after it: a change of rows is followed by an
    epoch.
    """

    def __init__(
        self,
        db: Database,
        printer: Printer,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.db = db
        self.printer = printer
        self.timing = False
        self.open_files = 0
        """How many files are being run, one from inside the other."""
        self.last_query: Query | None = None
        self._clock = clock

    def run_statement(self, statement: Any) -> None:
        """Run one statement and print its result."""
        started = self._clock()
        result = interruptible(lambda: self.db.run_statement(statement))
        if isinstance(result, Result):
            interruptible(lambda: self.printer.result(result))
        elif isinstance(result, int):
            report = interruptible(self.db.step)
            epoch = f", epoch {report.epoch}" if report is not None else ""
            self.printer.note(f"{result:,} {'row' if result == 1 else 'rows'} changed{epoch}")
        else:
            self.printer.note("done")
        if isinstance(statement, Query):
            self.last_query = statement
        if self.timing:
            self.printer.line(f"time: {(self._clock() - started) * 1000:,.0f} ms")


def interruptible(work: Callable[[], _T]) -> _T:
    """Do something that Ctrl-C cancels without leaving anything half done.

    The work is in a thread of its own, where no interrupt can strike between two lines. PySpark's
    handler cancels the Spark jobs, the work fails in an orderly way, and only then is the
    interrupt raised here.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="laminar-shell") as pool:
        future = pool.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.exception()
            raise
