"""What runs code that is no SQL is found wherever and however it is written."""

from __future__ import annotations

import pytest

from laminar.sql.foreign_code import foreign_code


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT reflect('java.lang.Math', 'abs', 1)", ["reflect"]),
        ("SELECT Java_Method ('a', 'b') + 1", ["java_method"]),
        ("SELECT `try_reflect`('a', 'b')", ["try_reflect"]),
        ("SELECT system.builtin.reflect('a', 'b')", ["reflect"]),
        ("FROM t |> SELECT reflect /* it */ ('a', 'b')", ["reflect"]),
        ("INSERT INTO t SELECT reflect('a', 'b')", ["reflect"]),
        ("DELETE FROM t WHERE reflect('a', 'b') = c", ["reflect"]),
        ("MERGE INTO t USING s ON t.a = reflect('a', 'b') WHEN MATCHED THEN DELETE", ["reflect"]),
        ("CREATE FUNCTION f() RETURN reflect('a', 'b')", ["reflect"]),
        ("CREATE TABLE t (a STRING DEFAULT reflect('a', 'b'))", ["reflect"]),
        ("SELECT TRANSFORM (a) USING 'cat' FROM t", ["transform"]),
        ("FROM t MAP a USING r'cat'", ["transform"]),
        ('SELECT * FROM (FROM t REDUCE a USING "cat")', ["transform"]),
        ("SELECT IDENTIFIER('ref' || 'lect')('a', 'b')", ["identifier"]),
        ("EXPLAIN SELECT reflect('a'), IDENTIFIER('x')(1)", ["reflect", "identifier"]),
        ("SELECT IDENTIFIER('a') FROM IDENTIFIER('t')", []),
        ("SELECT reflect, 'reflect(1)', a AS reflect FROM t -- reflect(1)", []),
        ("INSERT INTO reflect (a) SELECT 1", []),
        ("CREATE TABLE IF NOT EXISTS reflect (a INT)", []),
        ("WITH reflect(a) AS (SELECT 1) SELECT * FROM reflect", []),
        ("SELECT TRANSFORM(ARRAY(1), x -> x + 1), 'USING' FROM a JOIN b USING (c)", []),
        ("SELECT reflection(1)", []),
    ],
)
def test_calls(text: str, found: list[str]) -> None:
    assert [what for what, _, _ in foreign_code(text)] == found


def test_the_place_is_told() -> None:
    text = "SELECT 1, `reflect`('a')"
    assert foreign_code(text) == [("reflect", text.index("`reflect"), len("`reflect`"))]
