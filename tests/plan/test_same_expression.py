from __future__ import annotations

import pytest

from laminar.plan.parse import parse_query
from laminar.plan.same_expression import form


def said(expression: str) -> str:
    return form(parse_query(f"SELECT {expression}").expressions[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a + b", "b + a"),
        ("a * (b * 2)", "(2 * a) * b"),
        ("a > b AND c", "c AND b < a"),
        ("NOT (a < b)", "a >= b"),
        ("a = b", "(b) = a"),
        ("a IN (1, 2)", "a IN (2, 1)"),
        ("GREATEST(a, b)", "greatest(b, a)"),
        ("UPPER(a || b)", "upper(a || b)"),
    ],
)
def test_what_says_the_same(one: str, other: str) -> None:
    assert said(one) == said(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a - b", "b - a"),
        ("(a + b) * c", "a + b * c"),
        ("a < b", "a <= b"),
        ("a = b = c", "a = (b = c)"),
        ("a + 1", "a + '1'"),
        ("f(a, b)", "f(b, a)"),
        ("CAST(a AS INT)", "CAST(a AS BIGINT)"),
        ("a IN (1, 2)", "a IN (1, 3)"),
        ("COUNT(a)", "COUNT(DISTINCT a)"),
    ],
)
def test_what_says_something_else(one: str, other: str) -> None:
    assert said(one) != said(other)
