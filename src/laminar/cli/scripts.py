"""Running SQL from a file or from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from laminar.errors import SqlSyntaxError
from laminar.result import Result
from laminar.session import Database, connect
from laminar.sql import Query, Statement, parse_script


def read_script(file: Path) -> str:
    """Return the text of a script."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SqlSyntaxError(
            f"{file} is not text in UTF-8", detail=f"byte {error.start} is not", hint="convert it"
        ) from None


def run_script(script: str, state: Path | None, master: str | None) -> None:
    """Run a script; its queries, and its end, wait until all sources are idle."""
    statements = parse_script(script)  # before Spark starts: a typing mistake shows at once
    console = Console()
    with connect(state, master=master) as db, console.status("running") as status:
        db.on_epoch(
            lambda report: status.update(
                f"epoch {report.epoch}: {report.rows_in:,} rows in {report.duration_ms:.0f} ms"
            )
        )
        for statement in statements:
            if isinstance(statement, Query):
                db.drain()
            _show(db.run_statement(statement))
        last = db.drain()
        epoch = last.epoch if last else db.engine.manifest.epoch
        console.print(f"all sources are idle at epoch {epoch}")


def run_statements(script: str, state: Path | None, master: str | None) -> None:
    """Run statements; rows that they change are visible to the ones after them."""
    statements = parse_script(script)
    with connect(state, master=master) as db:
        _run_each(db, statements)


def _run_each(db: Database, statements: Sequence[Statement]) -> None:
    for statement in statements:
        result = db.run_statement(statement)
        _show(result)
        if isinstance(result, int):
            db.drain()


def _show(result: object) -> None:
    if isinstance(result, Result):
        result.show()
