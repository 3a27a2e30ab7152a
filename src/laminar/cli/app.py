"""Commands and exit codes: 0 done, 1 the user's mistake, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Format, Printer, print_error
from laminar.errors import LaminarError
from laminar.errors.secrets import traceback_of

app = typer.Typer(
    name="laminar",
    help="Cascading materialized views on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

State = Annotated[
    Path | None,
    typer.Option(
        help="Directory of the database; a temporary one by default.",
        envvar="LAMINAR_STATE",
        file_okay=False,
    ),
]
Master = Annotated[
    str | None, typer.Option(help="Spark master; local[*] by default.", envvar="LAMINAR_MASTER")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show what Spark logs.")]
Script = Annotated[
    Path, typer.Argument(help="A script of SQL statements.", exists=True, dir_okay=False)
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Write CSV.")]


@app.command()
def demo(
    events: Annotated[int, typer.Option(min=1, help="How many trades to generate.")] = 500_000,
    verbose: Verbose = False,
) -> None:
    """Run the trades DAG on generated data and show its views."""
    from laminar.cli.demo import run_demo

    run_demo(events, verbose=verbose)


@app.command()
def run(
    file: Script,
    state: State = None,
    master: Master = None,
    as_json: Json = False,
    as_csv: Csv = False,
    verbose: Verbose = False,
) -> None:
    """Run a script and carry its views forward until all sources are idle."""
    form = _format(as_json=as_json, as_csv=as_csv)
    from laminar.cli.input import read_file
    from laminar.cli.opening import open_database
    from laminar.cli.scripts import run_script
    from laminar.sql import parse_script

    statements = parse_script(read_file(file))  # before Spark starts: a mistake shows at once
    with open_database(state, master, verbose=verbose) as db:
        run_script(db, statements, form)


@app.command()
def sql(
    command: Annotated[
        str | None, typer.Option("-c", "--command", help="Run these statements, then leave.")
    ] = None,
    state: State = None,
    master: Master = None,
    as_json: Json = False,
    as_csv: Csv = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only read, beside a process that writes.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Talk SQL: an interactive shell, or statements from -c or a pipe."""
    form = _format(as_json=as_json, as_csv=as_csv)
    from laminar.cli.input import parse_steps
    from laminar.cli.opening import open_database
    from laminar.cli.scripts import run_steps

    if command is None and sys.stdin.isatty():
        if form is not Format.TABLE:
            raise typer.BadParameter("--json and --csv need statements: from -c, or a pipe")
        from laminar.cli.shell import run_shell

        with open_database(state, master, verbose=verbose, read_only=read_only) as db:
            run_shell(db)
        return
    steps = parse_steps(_piped() if command is None else command)
    if steps:
        with open_database(state, master, verbose=verbose, read_only=read_only) as db:
            run_steps(db, steps, form)


@app.command()
def explain(
    file: Script, as_json: Json = False, master: Master = None, verbose: Verbose = False
) -> None:
    """Check a script and show its DAG and plans; no data is touched."""
    form = _format(as_json=as_json)
    from laminar.cli.explain import define, explained, show_explained
    from laminar.cli.input import read_file
    from laminar.cli.opening import open_database
    from laminar.sql import parse_script

    statements = parse_script(read_file(file))
    with open_database(None, master, verbose=verbose) as db:
        left_out = define(db, statements)
        found = explained(db)
    if form is Format.JSON:
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        return
    printer = Printer()
    show_explained(found, printer)
    if left_out:
        printer.line(f"\nnot run: {left_out} statement(s) that change or show rows")


@app.command()
def status(state: State = None, as_json: Json = False) -> None:
    """Show what a database holds, without starting Spark."""
    form = _format(as_json=as_json)
    from laminar.cli.status import find_state, show_status
    from laminar.runtime.introspection.status import read_status

    found = read_status(find_state(state))
    if form is Format.JSON:
        sys.stdout.write(json.dumps(found.as_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        show_status(found, Printer())


@app.command()
def checkpoints(state: State = None, as_json: Json = False) -> None:
    """List the checkpoints of a database, without starting Spark."""
    form = _format(as_json=as_json)
    from laminar.cli.checkpoints import read_checkpoints, show_checkpoints
    from laminar.cli.status import find_state

    found = read_checkpoints(find_state(state))
    if form is Format.JSON:
        listed = [each.as_json() for each in found]
        sys.stdout.write(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
    else:
        show_checkpoints(found, Printer())


@app.command()
def console(
    state: State = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")
    ] = 8410,
    host: Annotated[
        str, typer.Option(help="The address to listen on; there is no password.")
    ] = "127.0.0.1",
    browser: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open a browser; by default if there is a desktop."),
    ] = None,
) -> None:
    """Show a database in the browser, beside whoever writes it, without starting Spark."""
    from laminar.cli.status import find_state
    from laminar.console.server import serve

    printer, to_stderr = Printer(), Printer(out=sys.stderr)
    serve(
        find_state(state),
        host,
        port,
        browser=browser,
        say=printer.line,
        warn=lambda text: to_stderr.line(f"warning: {text}"),
    )


@app.command()
def init(
    name: Annotated[Path, typer.Argument(help="The folder to create.", file_okay=False)],
) -> None:
    """Create a small project that runs as it is."""
    from laminar.cli.project import create_project

    printer = Printer()
    for path in create_project(name):
        printer.line(f"created {path}")
    printer.line(f"\nnext: cd {name} && laminar run pipeline.sql --state state")


def _format(*, as_json: bool = False, as_csv: bool = False) -> Format:
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    return Format.JSON if as_json else Format.CSV if as_csv else Format.TABLE


def _piped() -> str:
    from laminar.errors import SqlSyntaxError

    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise SqlSyntaxError(
            "standard input is not text in UTF-8", detail=f"byte {error.start} is not"
        ) from None


def main() -> None:
    """Run the command line; a mistake of the user's is a message, never a stack trace."""
    wants_json = "--json" in sys.argv[1:]
    # It warns of statements that it does not know; those are refused anyway, in our words.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        app()
    except LaminarError as error:
        print_error(error, Format.JSON if wants_json else Format.TABLE)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if "--verbose" in sys.argv[1:]:
            sys.stderr.write(f"{traceback_of(error)}\n")
            sys.exit(1)
        fact = (str(error).strip() or type(error).__name__).partition("\n")[0]
        hint = "this should not happen; --verbose shows where it did"
        print_error(LaminarError("something broke inside", detail=fact, hint=hint))
        sys.exit(1)
