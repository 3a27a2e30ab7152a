"""Input, cut into steps: statements of SQL, and lines that start with a backslash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from laminar.errors import SqlSyntaxError
from laminar.sql import Location, Statement, parse_script
from laminar.sql.tokens import Token, scan, tokenize


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

    Law: a backslash starts a command where a statement could start, and nowhere else; the command
    ends with the line.
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
        tokens = tokenize(text)
    except SqlSyntaxError:
        return False  # something is open that a further line may close
    if not tokens or tokens[-1].is_symbol(";"):
        return True
    last_line = text.rstrip().rfind("\n")
    return any(_is_command(text, token) and token.start > last_line for token in tokens)


def _is_command(text: str, token: Token) -> bool:
    """Whether a token is a backslash at the start of its line."""
    return (
        token.is_symbol("\\")
        and not text[text.rfind("\n", 0, token.start) + 1 : token.start].strip()
    )


def _commands(text: str) -> Iterator[Command]:
    at = 0
    while text.find("\\", at) >= 0:
        first = next(scan(text, at), None)
        if first is None:
            return
        if first.is_symbol("\\"):
            stop = text.find("\n", first.start)
            at = len(text) if stop < 0 else stop
            yield _command(text, first.start, at)
        else:
            at = _end_of_statement(text, first.start)


def _end_of_statement(text: str, start: int) -> int:
    for token in scan(text, start):
        if token.is_symbol(";"):
            return token.end
        if _is_command(text, token):
            hint = "end the statement before it with ;"
            raise SqlSyntaxError("a command inside a statement", hint=hint).at(text, token.start)
    return len(text)


def _command(text: str, start: int, stop: int) -> Command:
    line = text[start:stop].rstrip()
    name, _, argument = line[1:].partition(" ")
    return Command(name, argument.strip().removesuffix(";").strip(), line, Location.of(text, start))
