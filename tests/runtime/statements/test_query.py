"""A text of a query that comes again is not read again; nobody sees a difference."""

from __future__ import annotations

import pytest

from laminar.errors import SqlSyntaxError
from laminar.errors.arguments import MissingArgument
from laminar.runtime.statements import query


def test_the_same_text_is_read_once() -> None:
    text = "SELECT k, v FROM t JOIN laminar_system.sources s ON k = s.name"
    assert query.asked(text, None) is query.asked(text, None)
    assert query.worded(text, spells_asof=True) is query.worded(text, spells_asof=True)
    assert query.worded(text, spells_asof=True).relations == ("t", "laminar_system.sources")


def test_arguments_make_another_query_each_time() -> None:
    text = "SELECT * FROM t WHERE k = :k"
    found = [query.asked(text, {"k": number}).text for number in (1, 2)]
    assert found == ["SELECT * FROM t WHERE k = 1", "SELECT * FROM t WHERE k = 2"]


@pytest.mark.parametrize(
    ("text", "error"), [("DROP TABLE t", SqlSyntaxError), ("SELECT :k", MissingArgument)]
)
def test_what_is_wrong_is_said_each_time(text: str, error: type[Exception]) -> None:
    for _ in range(2):
        with pytest.raises(error):
            query.asked(text, None)


def test_long_texts_are_not_kept() -> None:
    text = f"SELECT * FROM t WHERE k = '{'x' * 20_000}'"
    assert query.asked(text, None) is not query.asked(text, None)
    assert query.worded(text, spells_asof=True) == query.worded(text, spells_asof=True)
    assert query.worded(text, spells_asof=True) is not query.worded(text, spells_asof=True)
