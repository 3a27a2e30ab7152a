"""Commands and exit codes: 0 done, 1 the user's mistake, 2 wrong usage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from laminar.errors import LaminarError

app = typer.Typer(
    name="laminar",
    help="Cascading materialized views on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

State = Annotated[
    Path | None, typer.Option(help="Directory of the database; a temporary one by default.")
]
Master = Annotated[str | None, typer.Option(help="Spark master; local[*] by default.")]
Script = Annotated[
    Path, typer.Argument(help="A script of SQL statements.", exists=True, dir_okay=False)
]


@app.command()
def demo(
    events: Annotated[int, typer.Option(min=1, help="How many trades to generate.")] = 500_000,
) -> None:
    """Run the trades DAG on generated data and show its views."""
    from laminar.cli.demo import run_demo

    run_demo(events)


@app.command()
def run(file: Script, state: State = None, master: Master = None) -> None:
    """Run a script and carry its views forward until all sources are idle."""
    from laminar.cli.scripts import read_script, run_script

    run_script(read_script(file), state, master)


@app.command()
def sql(
    command: Annotated[str, typer.Option("-c", help="The statements to run.")],
    state: State = None,
    master: Master = None,
) -> None:
    """Run statements and show the result of each."""
    from laminar.cli.scripts import run_statements

    run_statements(command, state, master)


def main() -> None:
    """Run the command line; a mistake of the user's is a message, never a stack trace."""
    try:
        app()
    except LaminarError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), markup=False, highlight=False)
        sys.exit(1)
