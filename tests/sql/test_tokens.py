from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.errors import SqlSyntaxError
from laminar.sql.tokens import Kind, tokenize, without_comments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT = [
    ("a.b", ["a", ".", "b"]),
    ("1.5 .5 1e-3 1L 2.0BD", ["1.5", ".5", "1e-3", "1L", "2.0BD"]),
    ("1m a1 _x ü", ["1m", "a1", "_x", "ü"]),
    ("a<=>b!=c::d", ["a", "<=>", "b", "!=", "c", "::", "d"]),
    ("ARRAY<ARRAY<INT>>", ["ARRAY", "<", "ARRAY", "<", "INT", ">", ">"]),
    ("'it''s' 'a\\'b' \"x;y\" r'\\' R\"a\"", ["'it''s'", "'a\\'b'", '"x;y"', "r'\\'", 'R"a"']),
    ("`a``b` `;`", ["`a``b`", "`;`"]),
    ("a -- b ; c\nd", ["a", "d"]),
    ("a -- b \\\n still a comment\nd", ["a", "d"]),
    ("a /* /* ; */ ' */ b", ["a", "b"]),
    ("a--b", ["a"]),
    ("EXPLAIN SELECT ';' ; SHOW x", ["EXPLAIN", "SELECT", "';'", ";", "SHOW", "x"]),
]


@pytest.mark.parametrize(("text", "expected"), SPLIT, ids=[text for text, _ in SPLIT])
def test_text_is_split(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokenize(text)] == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        ('"a""b\'c"', "a\"b'c"),
        ("'a\\'b\\n\\t\\\\'", "a'b\n\t\\"),
        ("'\\u00e4\\101\\%\\_'", "äA\\%\\_"),
        ("r'\\n'", "\\n"),
        ("`a``b`", "a`b"),
    ],
)
def test_quotes_come_off(text: str, value: str) -> None:
    (token,) = tokenize(text)
    assert token.value == value


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        "'it''s'",
        '"a""b"',
        "'a\\'b'",
        "'\\u00e4\\101\\%\\_\\q'",
        "r'\\n'",
        "'\\0\\b\\r\\Z'",
        "'x\ny'",
    ],
)
def test_a_string_is_what_it_is_to_spark(text: str, spark: SparkSession) -> None:
    (token,) = tokenize(text)
    row = spark.sql(f"SELECT {text}").first()
    assert row is not None
    assert token.value == row[0]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a\n 'b", 2, 2), ("`x", 1, 1), ('"', 1, 1), ("r'", 1, 1), ("a /* b", 1, 3), ("x ``", 1, 3)],
)
def test_what_is_never_closed_is_refused_where_it_opens(text: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        tokenize(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@given(st.text(alphabet="ab1.'\"`-/*\\; \n()<>=rü", max_size=30))
def test_no_character_is_lost(text: str) -> None:
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        return
    blank = without_comments(text)
    assert len(blank) == len(text)
    assert "".join(blank.split()) == "".join("".join(t.text.split()) for t in tokens)
    at = 0
    for token in tokens:
        assert token.start >= at
        assert token.text == text[token.start : token.end] != ""
        assert token.kind is not Kind.END
        at = token.end
