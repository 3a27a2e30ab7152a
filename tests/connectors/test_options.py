from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from laminar.connectors.options import Options
from laminar.errors import BadOption, MissingOption, UnknownOption


def options(**given: str) -> Options:
    return Options("probe", given)


def test_values_are_read_as_types() -> None:
    given = options(n="1_000", yes="TRUE", word="Csv", number="0.10", text="x")
    assert given.integer("n", 1) == 1000
    assert given.boolean("yes", default=False) is True
    assert given.choice("word", ["csv", "json"]) == "csv"
    assert str(given.decimal("number", 0)) == "0.10"
    assert given.text("text", "y") == "x"


def test_defaults_stand_in_for_what_is_not_given() -> None:
    given = options()
    assert given.integer("n", 7) == 7
    assert given.boolean("yes", default=True) is True
    assert given.choice("word", ["csv"], "csv") == "csv"
    assert given.decimal("number", "1.5") == Decimal("1.5")
    assert given.limit("most") is None
    given.refuse_leftovers()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250 ms", 0.25), ("5s", 5), ("1.5 h", 5400), ("10 minutes", 600), ("2 days", 172800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert options(step=text).duration("step", timedelta()) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 parsecs", "-5 s", "5 s 3"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="step"):
        options(step=text).duration("step", timedelta())


def test_bad_values_are_refused_with_what_would_do() -> None:
    with pytest.raises(BadOption) as whole:
        options(n="many").integer("n", 1)
    assert "a whole number" in whole.value.hint
    with pytest.raises(BadOption) as more:
        options(n="0").integer("n", 1, at_least=1)
    assert "1 or more" in more.value.hint
    with pytest.raises(BadOption):
        options(most="0").limit("most")
    with pytest.raises(BadOption):
        options(yes="yes").boolean("yes", default=True)
    with pytest.raises(BadOption):
        options(number="NaN").decimal("number", 0)
    with pytest.raises(BadOption) as word:
        options(word="xml").choice("word", ["csv", "json"])
    assert "csv, json" in word.value.hint


def test_a_path_must_exist_and_be_local(tmp_path: Path) -> None:
    assert options(path=str(tmp_path)).path("path") == tmp_path
    assert options(path=f"file://{tmp_path}").path("path") == tmp_path
    for text in (str(tmp_path / "nowhere"), "s3://bucket/folder"):
        with pytest.raises(BadOption):
            options(path=text).path("path")


def test_a_missing_option_is_named_and_a_near_one_pointed_at() -> None:
    with pytest.raises(MissingOption) as error:
        options(pth="x").required("path")
    assert error.value.option == "path"
    assert '"pth" was given' in error.value.hint


def test_what_nobody_asked_for_is_refused() -> None:
    given = options(header="true", delimitr=";")
    given.boolean("header", default=True)
    given.text("delimiter", ",")
    with pytest.raises(UnknownOption) as error:
        given.refuse_leftovers()
    assert error.value.option == "delimitr"
    assert error.value.suggestion == "delimiter"


def test_looking_is_not_using() -> None:
    given = options(most="5")
    assert "most" in given
    with pytest.raises(UnknownOption):
        given.refuse_leftovers()
    assert given["most"] == "5"
    given.refuse_leftovers()
