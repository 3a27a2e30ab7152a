"""Running SQL that stands in a file, comes through a pipe, or is given on the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from laminar.cli.commands import run_all
from laminar.cli.input import Step
from laminar.cli.output import Format, Printer
from laminar.cli.step_runner import Runner
from laminar.errors import ConnectorError
from laminar.result import Result
from laminar.runtime.epoch.outcome import EpochReport
from laminar.session import Database
from laminar.sql import Query, Statement


def run_script(db: Database, statements: Sequence[Statement], form: Format) -> None:
    """Run a script; its queries, and its end, wait until all sources are idle.

    The end waits for sinks, too, as long as they get on.

    Raises:
        ConnectorError: a sink has not taken all, for it fails.
    """
    printer = Printer(form)
    with _progress(db):
        for statement in statements:
            if isinstance(statement, Query):
                db.drain()
            result = db.run_statement(statement)
            if isinstance(result, Result):
                printer.result(result)
        last = db.drain()
        behind = db.engine.outputs.sinks.waits.finish()
    epoch = last.epoch if last else db.engine.ledger.epoch
    printer.line(f"all sources are idle at epoch {epoch}")
    for name, each in behind.items():
        if each.attempts:
            raise ConnectorError(name, each.reason)
        printer.line(f'sink "{name}" is {each.state}, {each.lag_epochs} epochs behind')


def run_steps(db: Database, steps: Sequence[Step], form: Format) -> None:
    """Run steps; rows that they change are visible to the ones after them."""
    run_all(Runner(db, Printer(form)), steps)


@contextmanager
def _progress(db: Database) -> Iterator[None]:
    """Show how the epochs go, to somebody who sits there."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status("running") as status:
        db.on_epoch(_Progress(status))
        yield


class _Progress:
    """Says after each epoch how far it went, and how fast."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._rows = 0
        self._started = time.perf_counter()

    def __call__(self, report: EpochReport) -> None:
        self._rows += report.rows_in
        rate = self._rows / max(time.perf_counter() - self._started, 1e-9)
        self._status.update(
            f"epoch {report.epoch}: {report.rows_in:,} rows in {report.duration_ms:,.0f} ms;"
            f" {self._rows:,} rows so far, {rate:,.0f} a second"
        )
