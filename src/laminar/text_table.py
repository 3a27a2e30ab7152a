"""Rows as a table for people: as wide as the terminal, and never wider."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.text import Text

_NARROWEST = 12
"""A column that is folded into fewer cells than this cannot be read."""

_FRAME = 3
"""What a column costs beside its content: a line and two blanks."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def text_of(value: Any) -> str:
    """Return a value as people read it; a control character shows as its code."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
        case bytes() | bytearray():
            return f"X'{bytes(value).hex().upper()}'"
        case datetime() | date() | timedelta() | Decimal() | int() | float():
            return str(value)
        case Mapping():
            return _braces(f"{text_of(key)}: {text_of(each)}" for key, each in value.items())
        case tuple() if hasattr(value, "__fields__"):
            pairs = zip(value.__fields__, value, strict=True)
            return _braces(f"{name}: {text_of(each)}" for name, each in pairs)
        case list() | tuple():
            return f"[{', '.join(text_of(each) for each in value)}]"
    return text_of(str(value))


def _braces(parts: Iterable[str]) -> str:
    return f"{{{', '.join(parts)}}}"


class RowsTable:
    """Rows for a console: a table if one fits, otherwise one value per line.

    Law: no value is cut off; what is too long is folded.
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._columns = [text_of(name) for name in columns]
        self._cells = [[text_of(value) for value in row] for row in rows]
        self._missing = [[value is None for value in row] for row in rows]
        self._numeric = [
            any(row[place] is not None for row in rows)
            and all(_is_number(row[place]) for row in rows)
            for place in range(len(columns))
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Choose the form that fits."""
        # A file has no edge: whatever reads it later can fold the lines itself.
        width = options.max_width if console.is_terminal else max(self._natural(), 1)
        if self._least() <= width:
            yield from console.render(self._table(), options.update(width=width))
        else:
            yield from self._records()

    def _widths(self) -> list[int]:
        cells = zip(*self._cells, strict=True) if self._cells else [()] * len(self._columns)
        return [
            max(_cells_wide(name), *(_cells_wide(cell) for cell in column), 0)
            for name, column in zip(self._columns, cells, strict=True)
        ]

    def _natural(self) -> int:
        return sum(width + _FRAME for width in self._widths()) + 1

    def _least(self) -> int:
        return sum(min(width, _NARROWEST) + _FRAME for width in self._widths()) + 1

    def _table(self) -> Table:
        # As Text, because a name or a value may look like markup.
        table = Table(
            *(
                Column(Text(name), overflow="fold", justify="right" if numeric else "left")
                for name, numeric in zip(self._columns, self._numeric, strict=True)
            )
        )
        for row, missing in zip(self._cells, self._missing, strict=True):
            table.add_row(
                *(
                    Text(cell, style="dim" if gone else "")
                    for cell, gone in zip(row, missing, strict=True)
                )
            )
        return table

    def _records(self) -> Iterable[Text]:
        widest = max((_cells_wide(name) for name in self._columns), default=0)
        for number, row in enumerate(self._cells, start=1):
            yield Text(f"-- row {number}", style="dim")
            for name, cell, gone in zip(self._columns, row, self._missing[number - 1], strict=True):
                margin = " " * (widest - _cells_wide(name))
                yield Text.assemble((f"{margin}{name}: ", "bold"), (cell, "dim" if gone else ""))


def _is_number(value: Any) -> bool:
    return value is None or (
        isinstance(value, int | float | Decimal) and value is not True and value is not False
    )


def _cells_wide(text: str) -> int:
    return max((cell_len(line) for line in text.split("\n")), default=0)
