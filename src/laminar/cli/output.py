"""What commands print: tables for people, JSON and CSV for programs, errors in their place."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from laminar.errors import LaminarError
from laminar.text_table import RowsTable, text_of

if TYPE_CHECKING:
    from laminar.result import Result

SHOWN_ROWS = 200
"""How many rows a terminal is shown; files and pipes get all of them."""


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Printer:
    """Writes results to standard output; whatever else there is to say stands apart from them.

    Law: with JSON and CSV, standard output holds rows and nothing else.
    """

    def __init__(
        self, form: Format = Format.TABLE, out: IO[str] | None = None, *, chatty: bool = False
    ) -> None:
        self.form = form
        self._out = out
        self._chatty = chatty
        self.console = Console(file=out, highlight=False)

    @property
    def _file(self) -> IO[str]:
        return self._out or sys.stdout

    def result(self, result: Result) -> None:
        """Write a result; as JSON or CSV, row by row as Spark gives them."""
        match self.form:
            case Format.TABLE:
                self._table(result)
            case Format.JSON:
                write_json_rows(self._file, result.columns, iter(result))
            case Format.CSV:
                write_csv(self._file, result.columns, iter(result))
        self._file.flush()

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write rows that are there already."""
        match self.form:
            case Format.TABLE:
                self.console.print(RowsTable(columns, rows), crop=False)
            case Format.JSON:
                write_json_rows(self._file, columns, iter(rows))
            case Format.CSV:
                write_csv(self._file, columns, iter(rows))

    def line(self, text: str) -> None:
        """Write a line for people; JSON and CSV have no place for one."""
        if self.form is Format.TABLE:
            self.console.print(Text(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """Say something about what was done, if somebody sits there."""
        if self._chatty:
            self.console.print(Text(text, style="dim"))

    def _table(self, result: Result) -> None:
        if not self.console.is_terminal:
            found = list(result)
            self.rows(result.columns, found)
            return
        found = result.head(SHOWN_ROWS + 1)
        self.rows(result.columns, found[:SHOWN_ROWS])
        if len(found) > SHOWN_ROWS:
            self.note(f"... more than {SHOWN_ROWS} rows; add LIMIT, or write them to a file")


def write_json_rows(out: IO[str], columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    """Write one array of objects, a row to a line."""
    names = _distinct(columns)
    out.write("[")
    for place, row in enumerate(rows):
        entry = dict(zip(names, map(plain, row), strict=True))
        out.write(f"{',' if place else ''}\n{json.dumps(entry, ensure_ascii=False)}")
    out.write("\n]\n")


def write_csv(out: IO[str], columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    """Write a line of names, then the rows. NULL is empty, an empty string is in quotes."""
    out.write(",".join(map(_csv_cell, columns)) + "\n")
    for row in rows:
        out.write(",".join(map(_csv_cell, row)) + "\n")


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    made = plain(value)
    if isinstance(made, bool):
        return "true" if made else "false"
    text = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)
    if text == "" or any(sign in text for sign in ',"\n\r'):
        return f'"{text.replace(chr(34), chr(34) * 2)}"'
    return text


def plain(value: Any) -> Any:
    """Return a value as JSON has it. Decimals stay exact, so they are strings."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if isfinite(value) else str(value)
        case Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes() | bytearray():
            return bytes(value).hex()
        case tuple() if hasattr(value, "__fields__"):
            return dict(zip(value.__fields__, map(plain, value), strict=True))
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {text_of(key): plain(each) for key, each in value.items()}
    return text_of(value)


def _distinct(columns: Sequence[str]) -> list[str]:
    """Return the names with a number after those that occur again: an object has each once."""
    names: list[str] = []
    for name in columns:
        found, times = name, 1
        while found in names:
            times += 1
            found = f"{name}_{times}"
        names.append(found)
    return names


def print_error(error: LaminarError, form: Format = Format.TABLE) -> None:
    """Write an error to standard error: code, message, the place underlined, what to do."""
    if form is Format.JSON:
        sys.stderr.write(json.dumps({"error": error_fields(error)}, ensure_ascii=False) + "\n")
        return
    Console(stderr=True, soft_wrap=True, highlight=False).print(error_text(error))


def error_fields(error: LaminarError) -> dict[str, Any]:
    """Return an error as plain values."""
    found: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
    }
    if error.place is not None:
        found |= dict(zip(("line", "column"), error.place, strict=True))
    return found


def error_text(error: LaminarError) -> Text:
    """Return an error in colours; without them it is what `str` says."""
    lines = str(error).split("\n")
    shown = Text(lines[0].partition(":")[0], style="bold red")
    shown.append(lines[0][len(shown.plain) :], style="bold")
    for line in lines[1:]:
        style = "red" if line.strip(" \t^") == "" else ""
        if line.startswith("  hint:"):
            style = "cyan"
        shown.append("\n")
        shown.append(line, style=style)
    return shown
