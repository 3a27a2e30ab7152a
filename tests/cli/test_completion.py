"""What completion offers, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from laminar.cli.completion import SqlCompleter


class Fixed:
    def relations(self) -> Mapping[str, Sequence[str]]:
        return {
            "orders": ("id", "region", "amount"),
            "order lines": ("line_id",),
            "ohlc_1": ("open",),
            "ohlc_1m": ("open", "close"),
            "laminar_system.epochs": ("epoch", "rows_in"),
        }

    def functions(self) -> Iterable[str]:
        return ("sum", "substr", "tumble", "upper")


def offered(before: str, after: str = "") -> list[str]:
    completer = SqlCompleter(Fixed())
    document = Document(before + after, len(before))
    return [each.text for each in completer.get_completions(document, CompleteEvent())]


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT 1; cre", ["create"]),
        ("SELECT * FROM ord", ["orders", "`order lines`"]),
        ("SELECT * FROM ohlc_1", ["ohlc_1", "ohlc_1m"]),
        ("INSERT INTO or", ["orders", "`order lines`"]),
        ("DESCRIBE oh", ["ohlc_1", "ohlc_1m"]),
        ("SHOW DEPENDENCIES FOR oh", ["ohlc_1", "ohlc_1m"]),
        ("DROP MATERIALIZED VIEW oh", ["ohlc_1", "ohlc_1m"]),
        ("SELECT * FROM laminar_system.", ["epochs"]),
        ("SELECT * FROM laminar_system.ep", ["epochs"]),
        ("SELECT o. FROM x", []),
        ("SELECT orders.", ["id", "region", "amount"]),
        ("SELECT * FROM orders AS o JOIN ohlc_1m b ON b.", ["open", "close"]),
        ("SELECT * FROM orders o WHERE o.r", ["region"]),
        ("SELECT * FROM laminar_system.epochs e WHERE e.", ["epoch", "rows_in"]),
        ("SELECT * FROM ohlc_1m WHERE cl", ["close", "close"][:1]),
        ("SELECT tumb", ["tumble"]),
        ("SELECT 'FROM or", []),
        ("SELECT 1 -- FROM or", []),
        ("SELECT /* FROM or", []),
    ],
)
def test_what_fits_comes_first(before: str, first: list[str]) -> None:
    assert offered(before)[: len(first)] == first
    if not first:
        assert offered(before) == []


def test_the_rest_of_the_statement_counts() -> None:
    assert offered("SELECT o.", " FROM orders o; SELECT 1") == ["id", "region", "amount"]
    columns = offered("SELECT ", " FROM orders")
    assert columns[:3] == ["id", "region", "amount"]
    assert "open" not in columns
    su = offered("SELECT su")
    assert su[:2] == ["substr", "sum"]
    assert "region" in offered("SELECT ")


def test_commands_complete_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered("\\w") == ["watch"]
    assert "d" in offered("\\")
    assert offered("\\d oh") == ["ohlc_1", "ohlc_1m"]
    (tmp_path / "job.sql").touch()
    monkeypatch.chdir(tmp_path)
    assert offered("\\i jo") == ["b.sql"]
