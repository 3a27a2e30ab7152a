"""Functions that users bring: what a query is without calling them, and who calls whom."""

from __future__ import annotations

import json

import pytest

from laminar.errors import InvalidFunction, UnknownFunction
from laminar.runtime.catalog.function_definitions import FunctionDefinition, UserFunctions
from laminar.sql.function_calls import Parameter


def of_sql(name: str, body: str, *names: str, returns: str = "") -> FunctionDefinition:
    given = tuple(Parameter(each, "INT") for each in names)
    return FunctionDefinition(name, parameters=given, body=body, returns=returns)


TWICE = of_sql("Twice", "x * 2", "x")
MORE = of_sql("more", "twice(x) + up(x)", "x")
UP = FunctionDefinition("up", language="PYTHON", returns="INT", type_json='"integer"', version=3)
ALL = UserFunctions().with_one(TWICE).with_one(MORE).with_one(UP)


def test_a_query_calls_only_code_once_functions_of_sql_are_written_out() -> None:
    found = ALL.expanded("SELECT More(a) FROM t")
    assert "more(" not in found.lower()
    assert "twice(" not in found.lower()
    assert found.count("up(") == 1


def test_a_query_without_calls_stays_as_it_is() -> None:
    query = "SELECT  twice , t.more FROM t -- twice(1)"
    assert ALL.expanded(query) == query
    assert UserFunctions().expanded("SELECT twice(a)") == "SELECT twice(a)"


def test_who_calls_whom_is_known_through_others() -> None:
    assert ALL.calls("SELECT MORE(1)") == (("Twice", 0), ("more", 0), ("up", 3))
    assert ALL.users("UP") == ("more",)
    assert ALL.users("more") == ()
    assert ALL.absent(()) == ("up",)
    assert ALL.absent({"up"}) == ()


def test_a_function_never_calls_itself() -> None:
    circle = of_sql("twice", "more(x)", "x")
    with pytest.raises(InvalidFunction, match="it calls itself"):
        ALL.with_one(circle).refuse_circle(circle)
    ALL.refuse_circle(MORE)


def test_names_are_found_in_any_case_and_a_wrong_one_is_told() -> None:
    assert ALL.get("TWICE") is TWICE
    assert ALL.without(["tWICE"]).get("twice") is None
    with pytest.raises(UnknownFunction, match="twic"):
        ALL.require("twic")


def test_a_manifest_carries_all_of_them() -> None:
    stored = json.loads(json.dumps(ALL.to_json()))
    assert UserFunctions.from_json(stored) == ALL


def test_spark_is_told_bodies_and_types_apart() -> None:
    bodies, types = ALL.told()
    assert list(bodies) == ["Twice", "more"]
    assert types == {"up": '"integer"'}
    assert "twice(" not in bodies["more"].lower()


def test_a_signature_is_what_describe_shows() -> None:
    given = (Parameter("x", "INT"), Parameter("y", "INT", "1"))
    shown = FunctionDefinition("f", parameters=given, returns="BIGINT")
    assert shown.signature == "f(x INT, y INT DEFAULT 1) RETURNS BIGINT"
    assert UP.signature == "up(...) RETURNS INT"
