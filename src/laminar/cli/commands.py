"""What the shell itself understands: lines that start with a backslash."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from laminar.cli.input import Command, Step, parse_steps, read_file
from laminar.cli.step_runner import Runner, interruptible
from laminar.errors import (
    SqlError,
    SqlSyntaxError,
    UnknownCatalog,
    UnknownRelation,
    UnknownSchema,
    nearest,
)
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition
from laminar.runtime.catalog.redaction import shown_definition

_E = TypeVar("_E", bound=SqlError)

WATCH_SECONDS = 2.0
_WATCH_HINT = "write \\watch 2, or \\watch 2 c=10"
_DEEPEST = 16
"""How many files may include one another: more is a circle."""


@dataclass(frozen=True, slots=True)
class Known:
    """A command: how it is written, what it does, and the function; False ends the shell."""

    usage: str
    meaning: str
    run: Callable[[Runner, Command], bool]


def run_all(runner: Runner, steps: Sequence[Step]) -> bool:
    """Run steps in order; the first error ends them. Say whether the conversation goes on."""
    for step in steps:
        if isinstance(step, Command):
            if not run_command(runner, step):
                return False
        else:
            runner.run_statement(step)
    return True


def run_command(runner: Runner, command: Command) -> bool:
    """Run a command; False if the shell is to end."""
    known = COMMANDS.get(command.name)
    if known is None:
        meant = nearest(command.name, COMMANDS)
        hint = f"did you mean \\{meant}? " if meant else ""
        raise _refused(command, f'unknown command "\\{command.name}"', f"{hint}\\? lists them all")
    return known.run(runner, command)


def _describe(runner: Runner, command: Command) -> bool:
    catalog, printer = runner.db.engine.defined.catalog, runner.printer
    if not command.argument:
        rows = [
            (name, *_kind(runner, name), ", ".join(catalog.shape(name).columns))
            for name in catalog.definitions
        ]
        printer.rows(("name", "kind", "how", "columns"), rows)
        return True
    try:
        name = catalog.resolve(runner.db.known_as(command.argument))
    except (UnknownRelation, UnknownSchema, UnknownCatalog) as error:
        raise _placed(error, command) from None
    shape = catalog.shape(name)
    kind, how = _kind(runner, name)
    printer.line(f"{kind} {name}{f': {how}' if how else ''}")
    printer.rows(("column", "type"), list(zip(shape.columns, shape.types, strict=True)))
    if name in catalog.programs:
        printer.line(f"reads: {', '.join(catalog.programs[name].sources()) or 'nothing'}")
    printer.line(f"read by: {', '.join(catalog.registry.get_dependents(name)) or 'nothing'}")
    if defined := shown_definition(catalog.definitions[name]):
        printer.line(f"\n{defined};")
    return True


def _kind(runner: Runner, name: str) -> tuple[str, str]:
    definition = runner.db.engine.defined.catalog.definitions[name]
    if isinstance(definition, TableDefinition):
        return "source" if definition.is_source else "table", definition.connector or ""
    strategy = runner.db.engine.defined.catalog.programs[name].strategy.value
    paused = ", paused" if name in runner.db.engine.scheduler.paused else ""
    kind = "operator" if isinstance(definition, OperatorDefinition) else "materialized view"
    return kind, f"{strategy}{paused}"


def _watch(runner: Runner, command: Command) -> bool:
    """Repeat the last query, with an epoch before each time, until Ctrl-C or so many times."""
    if runner.last_query is None:
        raise _refused(command, "there is no query to watch", "run a SELECT first")
    seconds, times = WATCH_SECONDS, 0
    for word in command.argument.split():
        try:
            if word.startswith("c="):
                times = int(word.removeprefix("c="))
            else:
                seconds = float(word)
        except ValueError:
            raise _refused(command, f'"{word}" is not a number', _WATCH_HINT) from None
    if not 0 <= seconds <= 86_400 or times < 0:
        raise _refused(command, "that cannot be waited for", _WATCH_HINT)
    console, shown = runner.printer.console, 0
    try:
        while True:
            report = interruptible(runner.db.step)
            epoch = report.epoch if report is not None else runner.db.engine.ledger.manifest.epoch
            if console.is_terminal:
                console.clear()
            now = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
            runner.printer.note(f"{now}, epoch {epoch}, every {seconds:g} s; Ctrl-C ends")
            runner.run_statement(runner.last_query)
            shown += 1
            if shown == times:
                return True
            time.sleep(seconds)
    except KeyboardInterrupt:
        runner.printer.note("")
        return True


def _step(runner: Runner, command: Command) -> bool:
    if command.argument and not command.argument.isdecimal():
        raise _refused(command, "the number of epochs is a number", "write \\step or \\step 3")
    for _ in range(int(command.argument or 1)):
        report = interruptible(runner.db.step)
        if report is None:
            runner.printer.note("all sources are idle")
            break
        runner.printer.note(
            f"epoch {report.epoch}: {report.rows_in:,} rows in {report.duration_ms:,.0f} ms"
        )
    return True


def _drain(runner: Runner, _: Command) -> bool:
    while (report := interruptible(runner.db.step)) is not None:
        runner.printer.note(
            f"epoch {report.epoch}: {report.rows_in:,} rows in {report.duration_ms:,.0f} ms"
        )
    runner.printer.note("all sources are idle")
    return True


def _timing(runner: Runner, command: Command) -> bool:
    asked = command.argument.lower()
    if asked not in ("", "on", "off"):
        raise _refused(command, f'timing is on or off, not "{asked}"', "write \\timing")
    runner.timing = asked == "on" if asked else not runner.timing
    runner.printer.note(f"timing is {'on' if runner.timing else 'off'}")
    return True


def _include(runner: Runner, command: Command) -> bool:
    if not command.argument:
        raise _refused(command, "which file?", "write \\i file.sql")
    if runner.open_files >= _DEEPEST:
        raise _refused(command, "files include one another without end", "break the circle")
    path = Path(command.argument.strip("'\"")).expanduser()
    steps = parse_steps(read_file(path))
    runner.open_files += 1
    try:
        return run_all(runner, steps)
    finally:
        runner.open_files -= 1


def _help(runner: Runner, _: Command) -> bool:
    rows = [(each.usage, each.meaning) for each in COMMANDS.values()]
    runner.printer.rows(("command", "what it does"), rows)
    runner.printer.line("Statements end with a semicolon. Ctrl-C cancels, Ctrl-D leaves.")
    return True


def _quit(_runner: Runner, _: Command) -> bool:
    return False


def _refused(command: Command, message: str, hint: str) -> SqlSyntaxError:
    return _placed(SqlSyntaxError(message, hint=hint), command)


def _placed(error: _E, command: Command) -> _E:
    error.at(command.text, 0, len(command.text))
    return error.within(command.location.line, command.location.column)


COMMANDS = {
    "d": Known("\\d [name]", "list all relations, or describe one", _describe),
    "watch": Known(
        "\\watch [seconds] [c=times]", "repeat the last query, an epoch before each", _watch
    ),
    "step": Known("\\step [n]", "run an epoch, or n of them", _step),
    "drain": Known("\\drain", "run epochs until all sources are idle", _drain),
    "timing": Known("\\timing [on|off]", "say how long each statement takes", _timing),
    "i": Known("\\i file", "run the statements of a file", _include),
    "?": Known("\\?", "this list", _help),
    "q": Known("\\q", "leave", _quit),
}
"""Name -> command."""
