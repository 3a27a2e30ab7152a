"""Arguments in the place of parameters."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from laminar.errors import (
    BadArgument,
    LaminarError,
    MissingArgument,
    ParameterInDefinition,
    UnusedArgument,
)
from laminar.sql import parse_script
from laminar.sql.literals import literal
from laminar.sql.parameters import with_arguments


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (5, "5"),
        (-5, "(-5)"),
        (1 << 40, "1099511627776L"),
        (1 << 70, "1180591620717411303424BD"),
        (2.5, "2.5D"),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (Decimal("-1.50"), "(-1.50BD)"),
        (Decimal("1E+3"), "1000BD"),
        ("it's \\ -- ;", "'it\\'s \\\\ -- ;'"),
        (b"\x01\xff", "X'01ff'"),
        (date(2024, 1, 2), "DATE '2024-01-02'"),
        (datetime(2024, 1, 2, 3), "TIMESTAMP_LTZ '2024-01-02 03:00:00'"),
        (datetime(2024, 1, 2, tzinfo=UTC), "TIMESTAMP_LTZ '2024-01-02 00:00:00+00:00'"),
        (time(1, 2), "TIME '01:02:00'"),
        (timedelta(days=-1, seconds=5), "INTERVAL '-0 23:59:55.000000' DAY TO SECOND"),
        ([1, None], "ARRAY(1, NULL)"),
        ({"a": [1]}, "MAP('a', ARRAY(1))"),
    ],
)
def test_a_value_is_written_as_what_it_is(value: Any, written: str) -> None:
    assert literal(value) == written


@pytest.mark.parametrize("value", [{1}, object(), Decimal("NaN"), 10**40, [{1}]])
def test_what_is_no_value_is_refused(value: Any) -> None:
    with pytest.raises(BadArgument):
        with_arguments("SELECT ?", [value])


@pytest.mark.parametrize(
    ("script", "args", "bound"),
    [
        ("SELECT :a, :b + :a", {"a": 1, "b": 2}, "SELECT 1, 2 + 1"),
        ("SELECT ?; SELECT -?", [1, -2], "SELECT 1; SELECT -(-2)"),
        ("SELECT ':a', `:a`, x:a, f(y):b[0], :a -- :c", {"a": 1}, None),
        ("SELECT a::INT, CAST(a AS STRUCT<b: INT>) FROM t", None, None),
        ("SELECT * FROM t LIMIT :n", {"n": 3}, "SELECT * FROM t LIMIT 3"),
        ("SELECT * FROM IDENTIFIER(:t)", {"t": "v"}, "SELECT * FROM IDENTIFIER('v')"),
    ],
)
def test_parameters_are_found_and_nothing_else(script: str, args: Any, bound: str | None) -> None:
    expected = bound if bound is not None else script.replace(", :a --", ", 1 --")
    assert with_arguments(script, args) == expected


@pytest.mark.parametrize(
    ("script", "args", "error", "says"),
    [
        ("SELECT :low", None, MissingArgument, ":low"),
        ("SELECT :low", {"lo": 1}, MissingArgument, 'did you mean "lo"'),
        ("SELECT ?, ?", [1], MissingArgument, "number 2"),
        ("SELECT ?", {"a": 1}, MissingArgument, "number 1"),
        ("SELECT :a", [1], MissingArgument, ":a"),
        ("SELECT :a", {"a": 1, "b": 2}, UnusedArgument, "argument b"),
        ("SELECT 1", [1], UnusedArgument, "number 1"),
        ("SELECT ?", "text", BadArgument, "a list"),
    ],
)
def test_a_mistake_is_named(script: str, args: Any, error: type[LaminarError], says: str) -> None:
    with pytest.raises(error) as caught:
        with_arguments(script, args)
    assert says in str(caught.value)


def test_a_definition_has_no_parameters() -> None:
    script = "CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE k > :low"
    with pytest.raises(ParameterInDefinition) as caught:
        parse_script(with_arguments(script, {"low": 1}))
    assert caught.value.place == (1, 57)
