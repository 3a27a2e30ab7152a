"""Running SQL from a file or from the command line."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from laminar.result import Result
from laminar.session import Database, connect
from laminar.sql import parse_script


def run_script(script: str, state: Path | None, master: str | None) -> None:
    """Run a script, then carry the views forward until all sources are idle."""
    console = Console()
    with connect(state, master=master) as db:
        _run(db, script)
        with console.status("stepping") as status:
            db.on_epoch(
                lambda report: status.update(
                    f"epoch {report.epoch}: {report.rows_in:,} rows in {report.duration_ms:.0f} ms"
                )
            )
            last = db.drain()
        epoch = last.epoch if last else db.engine.manifest.epoch
        console.print(f"all sources are idle at epoch {epoch}")


def run_statements(script: str, state: Path | None, master: str | None) -> None:
    """Run statements; rows that they change are visible to the ones after them."""
    with connect(state, master=master) as db:
        _run(db, script)


def _run(db: Database, script: str) -> None:
    for statement in parse_script(script):
        result = db.run_statement(statement)
        if isinstance(result, Result):
            result.show()
        elif isinstance(result, int):
            db.drain()
