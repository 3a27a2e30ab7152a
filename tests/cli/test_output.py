"""Tables that fit, JSON and CSV that programs read, errors with their place underlined."""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row
from rich.cells import cell_len
from rich.console import Console

from laminar.cli.output import (
    Format,
    error_fields,
    error_text,
    print_error,
    write_csv,
    write_json_rows,
)
from laminar.errors import NotSupported, SqlSyntaxError
from laminar.text_table import RowsTable, text_of


def shown(columns: list[str], rows: list[tuple[Any, ...]], *, width: int | None) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width or 80, force_terminal=width is not None, no_color=True)
    console.print(RowsTable(columns, rows), crop=False)
    return (
        out.getvalue()
        .replace("\x1b[1m", "")
        .replace("\x1b[2m", "")
        .replace("\x1b[0m", "")
        .split("\n")
    )


LONG = "a long text that goes on and on, well beyond what any line of a terminal can hold"


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_value_is_cut(width: int) -> None:
    columns = ["id", "説明", "note", "amount", "when"]
    lines = shown(columns, [(1, "日本語のテキスト", LONG, Decimal("1.50"), None)] * 3, width=width)
    assert max(map(cell_len, lines)) <= width
    letters = "".join(lines)
    for word in ("goes", "well", "hold", "1.50", "NULL"):
        assert word in "".join(letter for letter in letters if letter not in "│ ") or width < 80
    squeezed = "".join(letter for letter in letters if letter.isalnum())
    assert squeezed.count("日本語のテキスト") == 3 or width in (40, 80)


def test_many_columns_become_one_value_per_line() -> None:
    columns = [f"column_{place}" for place in range(30)]
    lines = shown(columns, [tuple(range(30)), tuple(range(30))], width=80)
    assert lines[0] == "-- row 1"
    assert lines[1] == " column_0: 0"
    assert "-- row 2" in lines
    assert "column_29: 29" in lines


def test_a_file_has_no_edge() -> None:
    lines = shown(["a", "b"], [(LONG * 4, 1)], width=None)
    assert any(LONG * 4 in line for line in lines)
    assert len({len(line) for line in lines if line}) == 1


def test_numbers_stand_right_and_values_cannot_speak_to_the_terminal() -> None:
    lines = shown(["n", "[red]"], [(1, "\x1b[31mred\x07"), (1000, "[b]x[/b]")], width=80)
    assert "│    1 │" in "\n".join(lines)
    assert "\\x1b[31mred\\x07" in "\n".join(lines)
    assert "[b]x[/b]" in "\n".join(lines)
    assert "[red]" in lines[1]
    assert len(shown(["a"], [], width=80)) > 3


def test_values_read_like_sql() -> None:
    nested = Row(a=1, b=[None, "x"], c={"k": True})
    assert text_of(nested) == "{a: 1, b: [NULL, x], c: {k: true}}"
    assert text_of(b"\x00\xff") == "X'00FF'"
    assert text_of(timedelta(seconds=90)) == "0:01:30"


ROWS: list[tuple[Any, ...]] = [
    (1, 'a,"b"\nc', Decimal("1.10"), datetime(2026, 1, 2, 3, 4, 5), float("nan"), b"\x01"),
    (None, "", None, date(2026, 1, 2), 0.5, None),
]
COLUMNS = ["n", "n", "d", "t", "f", "b"]


def test_json_is_one_array_of_objects() -> None:
    out = io.StringIO()
    write_json_rows(out, COLUMNS, iter(ROWS))
    first, second = json.loads(out.getvalue())
    assert first == {
        "n": 1,
        "n_2": 'a,"b"\nc',
        "d": "1.10",
        "t": "2026-01-02T03:04:05",
        "f": "nan",
        "b": "01",
    }
    assert second["n"] is None
    assert second["n_2"] == ""
    nothing = io.StringIO()
    write_json_rows(nothing, ["a"], iter([]))
    assert json.loads(nothing.getvalue()) == []


def test_csv_is_read_back() -> None:
    out = io.StringIO()
    write_csv(out, COLUMNS, iter([*ROWS, (True, Row(x=1), [1], {"k": 2}, None, None)]))
    header, first, second, third = list(csv.reader(io.StringIO(out.getvalue())))
    assert header == COLUMNS
    assert first == ["1", 'a,"b"\nc', "1.10", "2026-01-02T03:04:05", "nan", "01"]
    assert second == ["", "", "", "2026-01-02", "0.5", ""]
    assert third == ["true", '{"x": 1}', "[1]", '{"k": 2}', "", ""]
    # NULL and the empty string differ.
    assert out.getvalue().split("\n")[3].startswith(',"",,')


def test_an_error_shows_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    error = SqlSyntaxError("odd", hint="mend it").at("SELECT\n\t語 FORM t", 10, 4)
    assert error_text(error).plain == str(error)
    lines = str(error).split("\n")
    assert lines[1] == "  detail: line 2, column 4"
    # As wide as the terminal shows it: a tab stays one, the sign before is two cells wide.
    assert lines[2:4] == ["    \t語 FORM t", "    \t   ^^^^"]
    print_error(error, Format.JSON)
    told = json.loads(capsys.readouterr().err)["error"]
    assert told == error_fields(error)
    assert (told["code"], told["line"], told["column"]) == ("LMR-3001", 2, 4)
    assert "line" not in error_fields(NotSupported("x"))
