"""Queries inside expressions, whatever they begin with."""

from __future__ import annotations

import pytest

from laminar.sql.nested_queries import holds_query


@pytest.mark.parametrize(
    "expression",
    [
        "(SELECT 1)",
        "a > (VALUES 1)",
        "a IN (VALUES (1), (2))",
        "a IN (TABLE u)",
        "a IN (\n-- all\ntable `u`)",
        "EXISTS (FROM u |> LIMIT 1)",
        "(WITH c AS (VALUES 1) TABLE c) = 1",
    ],
)
def test_a_query_is_seen(expression: str) -> None:
    assert holds_query(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "a + 1",
        "'(SELECT 1)'",
        "(values)",
        "(values + 1) * 2",
        "(table IS NULL)",
        "(table.a)",
        "abs(values)",
        "values IN (1, 2)",
        "trim(BOTH 'x' FROM s)",
        "(with = 1)",
    ],
)
def test_a_name_is_no_query(expression: str) -> None:
    assert not holds_query(expression)
