"""Where a statement ends, and which lines are for the shell itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.cli.input import Command, is_complete, parse_steps, read_file
from laminar.errors import SqlSyntaxError
from laminar.sql import Query, Show


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  \n", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1 -- not yet;", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT ';';", True),
        ('SELECT ";', False),
        ("SELECT 'it''s;", False),
        (r"SELECT 'a\';", False),
        ("SELECT `a;b`", False),
        ("SELECT `a;", False),
        ("SELECT /* ; */", False),
        ("SELECT /* ;", False),
        ("SELECT /* /* */ ; */ 1;", True),
        ("SELECT 1; SELECT", False),
        ("-- only a comment", True),
        (r"\d", True),
        (r"\i it's.sql", True),
        ("  \\d orders", True),
        ("SELECT 1;\n\\timing", True),
        ("SELECT a\n\\d", True),
    ],
)
def test_a_statement_ends_at_a_semicolon_of_its_own(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_commands_stand_between_statements() -> None:
    text = "SHOW TABLES;\n  \\d it's\nSELECT '\n\\d' AS a; SELECT 2\n;\\d x;\n\\watch 2 c=3\n"
    first, described, query, second, third, watch = parse_steps(text)
    assert isinstance(first, Show)
    assert isinstance(described, Command)
    assert (described.name, described.argument) == ("d", "it's")
    assert (described.location.line, described.location.column) == (2, 3)
    assert isinstance(query, Query)
    assert query.text == "SELECT '\n\\d' AS a"
    assert isinstance(second, Query)
    assert (second.location.line, second.location.column) == (4, 11)
    # After a semicolon on the same line it is a command as well.
    assert isinstance(third, Command)
    assert (third.name, third.argument) == ("d", "x")
    assert isinstance(watch, Command)
    assert (watch.name, watch.argument) == ("watch", "2 c=3")


def test_a_mistake_after_a_command_has_its_place_in_the_whole_text() -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        parse_steps("\\timing on\nSELECT 1;\n  SELEC 2;")
    assert refused.value.place == (3, 3)
    with pytest.raises(SqlSyntaxError) as refused:
        parse_steps("SELECT 1\n\\d\n")
    assert refused.value.place == (2, 1)
    assert parse_steps(" \n-- nothing\n") == []


def test_a_file_that_cannot_be_read_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(SqlSyntaxError, match="cannot read"):
        read_file(tmp_path / "none.sql")
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    with pytest.raises(SqlSyntaxError, match="UTF-8"):
        read_file(tmp_path / "latin.sql")
