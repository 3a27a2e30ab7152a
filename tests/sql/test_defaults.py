"""The word DEFAULT in VALUES, by its place in the row."""

from __future__ import annotations

import pytest

from laminar.sql.dml import with_defaults


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("VALUES (DEFAULT, 1), (2, default)", "VALUES (<0>, 1), (2, <1>)"),
        ("VALUES (f(1, 2), DEFAULT)", "VALUES (f(1, 2), <1>)"),
        ("VALUES (f(DEFAULT), 'DEFAULT', `DEFAULT`, DEFAULT + 1)", None),
        ("VALUES DEFAULT, 2, DEFAULT", "VALUES <0>, 2, <0>"),
        ("SELECT DEFAULT", None),
        ("VALUES (1) -- DEFAULT", None),
    ],
)
def test_default_stands_for_the_column_at_its_place(query: str, expected: str | None) -> None:
    assert with_defaults(query, lambda place: f"<{place}>") == (expected or query)
