"""Comparisons of CHAR columns are written out with their blanks; what is not known has no rule."""

from __future__ import annotations

import pytest

from laminar.plan.char_padding import padded
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import text
from laminar.testing import FixedTyper

CHARS = {"c1": "char(3)", "c2": "char(5)", "c3": "array<char(3)>", "c4": "array<char(5)>"}


def rendered(condition: str) -> str:
    query = parse_query(f"SELECT {condition}")
    once = padded(query.expressions[0], CHARS)
    assert text(padded(once, CHARS)) == text(once)
    return text(once).replace("`", "")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("c1 = 'a'", "c1 = 'a  '"),
        ("'a' <=> c1", "'a  ' IS NOT DISTINCT FROM c1"),
        (r"c1 = '\n'", "c1 = '\\n  '"),
        ("c1 > 'abcd'", "RPAD(c1, 4) > 'abcd'"),
        ("(c1) <> ('ä')", "(c1) <> 'ä  '"),
        ("c1 < c2", "RPAD(c1, 5) < c2"),
        ("c2 = c1", "c2 = RPAD(c1, 5)"),
        ("c1 = c1", "c1 = c1"),
        ("c1 = c9", "c1 = c9"),
        ("c9 = 'a'", "c9 = 'a'"),
        ("c1 = 1", "c1 = 1"),
        ("c3 = array('a')", "c3 = ARRAY('a')"),
        ("c3[0] = 'a'", "c3[0] = 'a'"),
        ("c1 = NULL", "c1 = NULL"),
        ("c1 || '' = 'a'", "c1 || '' = 'a'"),
        ("c1 IN ('a', 'bcde')", "RPAD(c1, 4) IN ('a   ', 'bcde')"),
        ("c1 IN ('a', c2)", "c1 IN ('a', c2)"),
        ("c1 BETWEEN 'a' AND 'b'", "c1 BETWEEN 'a' AND 'b'"),
        ("(c1 = 'a') = (c2 = 'b')", "(c1 = 'a  ') = (c2 = 'b    ')"),
        (
            "CASE c1 WHEN 'a' THEN c2 = 'b' END",
            "CASE WHEN c1 = 'a  ' THEN c2 = 'b    ' END",
        ),
    ],
)
def test_the_shorter_side_is_filled_up(condition: str, expected: str) -> None:
    assert rendered(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "c1 = concat('a', '')",
        "c1 = 'a' COLLATE UTF8_LCASE",
        "c1 IN ('a', NULL)",
        "c1 IN ('a', 1)",
        "c1 IN (c2)",
        "decode(c1, 'a', 1)",
        "equal_null(c1, 'a')",
        "filter(xs, x -> x = c1)",
        "struct(c1, 1)",
        "named_struct('k', c1)",
        "c3 = c4",
        "c3 IN (c4)",
        "CASE c3 WHEN c4 THEN 1 END",
        "struct(c3)",
    ],
)
def test_what_is_not_known_has_no_rule(condition: str) -> None:
    with pytest.raises(NoRule) as caught:
        rendered(condition)
    assert caught.value.reason is Reason.UNKNOWN_COMPARISON


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT c, d AS e, c || '' AS f FROM t", (("c", "char(3)"), ("e", "char(5)"))),
        ("SELECT k FROM (SELECT c AS k, count(*) FROM t GROUP BY c)", (("k", "char(3)"),)),
        ("SELECT c FROM t UNION ALL SELECT d FROM t", (("c", "char(3)"),)),
        ("SELECT 'x' AS c UNION ALL SELECT d FROM t", ()),
        ("SELECT max(c) AS c FROM t", ()),
        ("SELECT c, z FROM t, LATERAL (SELECT t.c AS z)", (("c", "char(3)"),)),
        ("SELECT (SELECT c FROM t LIMIT 1) AS c FROM t", ()),
        ("SELECT * FROM t a FULL JOIN (SELECT c FROM t) b USING (c)", (("d", "char(5)"),)),
    ],
)
def test_a_column_stays_one_and_what_is_computed_is_none(
    query: str, expected: tuple[tuple[str, str], ...]
) -> None:
    declared = {"t": (("c", "char(3)"), ("d", "char(5)"))}
    made = lower(parse_query(query), {"t": ("c", "d")}, FixedTyper(), chars=declared)
    assert made.chars == expected
