"""Input, cut into steps: statements of SQL, and lines that start with a backslash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from laminar.errors import SqlSyntaxError
from laminar.sql import Location, Statement, parse_script
from laminar.sql.tokens import scan, tokenize


@dataclass(frozen=True, slots=True)
class Command:
    """A line for the shell itself: a backslash, a word, and what that is about."""

    name: str
    argument: str
    text: str
    location: Location


Step = Statement | Command


def read_file(file: Path) -> str:
    """Return the text of a script."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SqlSyntaxError(
            f"{file} is not text in UTF-8", detail=f"byte {error.start} is not", hint="convert it"
        ) from None
    except OSError as error:
        raise SqlSyntaxError(
            f"cannot read {file}", detail=error.strerror or str(error), hint="check the path"
        ) from None


def parse_steps(text: str) -> list[Step]:
    """Return what a text asks for, in order; every place is one in the whole text.

    Law: a backslash starts a command where a statement could start, at the start of its line, and
    nowhere else; the command ends with the line.
    """
    commands = list(_commands(text))
    sql = text
    for each in commands:
        start = each.location.offset
        sql = sql[:start] + " " * len(each.text) + sql[start + len(each.text) :]
    steps: list[Step] = [*commands, *parse_script(sql)]
    return sorted(steps, key=lambda step: step.location.offset)


def is_complete(text: str) -> bool:
    """Whether a text is ready to run: it ends with a semicolon, or in a command, or is empty.

    A semicolon inside a string, a quoted name or a comment ends nothing.
    """
    if text.lstrip().startswith("\\"):
        return True
    try:
        last = next(iter(tokenize(text)[-1:]), None)
    except SqlSyntaxError:
        return False  # something is open that a further line may close
    return last is None or last.is_symbol(";") or _ends_in_command(text)


def _ends_in_command(text: str) -> bool:
    *_, line = text.rstrip().split("\n")
    found = list(_commands(text))
    return bool(found) and found[-1].text == line.strip()


def _commands(text: str) -> Iterator[Command]:
    if "\\" not in text:
        return
    at = 0
    while at < len(text):
        for token in scan(text, at):
            at = token.end
            if token.is_symbol("\\") and not text[text.rfind("\n", 0, at) + 1 : at - 1].strip():
                stop = text.find("\n", at)
                stop = len(text) if stop < 0 else stop
                yield _command(text, token.start, stop)
                at = stop
                break
            at = _end_of_statement(text, token.start)
            break
        else:
            return


def _end_of_statement(text: str, start: int) -> int:
    for token in scan(text, start):
        if token.is_symbol(";"):
            return token.end
    return len(text)


def _command(text: str, start: int, stop: int) -> Command:
    line = text[start:stop].rstrip()
    name, _, argument = line[1:].partition(" ")
    return Command(name, argument.strip().removesuffix(";").strip(), line, Location.of(text, start))
