"""What an option looks up elsewhere: used, and never kept or shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from laminar.connectors.options import Options
from laminar.errors import BadOption, BadReference, LaminarError, ReferenceNotFound, secrets


def read(text: str) -> str:
    return Options("probe", {"password": text})["password"]


def test_a_variable_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE", "from the environment")
    (tmp_path / "secret").write_text("from a file\r\n")
    assert read("${env:PROBE}") == "from the environment"
    assert read(f"${{file:{tmp_path}/secret}}") == "from a file"
    assert read(f"a${{env:PROBE}}b${{file:{tmp_path}/secret}}c") == (
        "afrom the environmentbfrom a filec"
    )
    monkeypatch.setenv("PROBE", "")
    assert read("${env:PROBE}") == ""


def test_it_is_looked_up_whenever_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options("probe", {"password": "${env:PROBE}"})
    for value in ("one", "two"):
        monkeypatch.setenv("PROBE", value)
        assert options["password"] == options.text("password", "") == value


def test_what_is_found_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE", "${env:HOME} $${x}")
    assert read("${env:PROBE}") == "${env:HOME} $${x}"


@pytest.mark.parametrize(
    ("text", "value"),
    [("$${env:X}", "${env:X}"), ("$1 {a} $", "$1 {a} $"), ("$$", "$$"), ("a$${b", "a${b")],
)
def test_the_escape(text: str, value: str) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    "text", ["${evn:X}", "${X}", "${}", "${env:}", "${env:X", "${ENV:X}", "x${system:user.home}y"]
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(BadReference, match="LMR-8041") as found:
        read(text)
    assert found.value.option == "password"


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROBE", raising=False)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_text("x" * 70_000)
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    for reference, why in (
        ("${env:PROBE}", "no variable of that name"),
        (f"${{file:{tmp_path}/nothing}}", "No such file"),
        (f"${{file:{tmp_path}}}", "Is a directory"),
        (f"${{file:{tmp_path}/pipe}}", "no file"),
        (f"${{file:{tmp_path}/binary}}", "not text"),
        (f"${{file:{tmp_path}/long}}", "longer than"),
        ("${file:relative}", "whole path"),
    ):
        with pytest.raises(ReferenceNotFound, match=why) as found:
            read(reference)
        assert found.value.reference == reference
        assert reference in found.value.message


def test_errors_say_what_was_written_and_not_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROBE", "many")
    options = Options("probe", {"n": "${env:PROBE}", "password": "${env:SECRET}"})
    with pytest.raises(BadOption) as bad:
        options.integer("n", 1)
    assert "${env:PROBE}" in bad.value.message
    assert "many" not in str(bad.value)
    monkeypatch.setenv("SECRET", "hush")
    assert options["password"] == "hush"
    later = LaminarError("login of hush refused", detail="hush", hint="is hush right?")
    assert "hush" not in str(later)
    assert str(later).count("${env:SECRET}") == 3


def test_short_values_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE", "true")
    assert Options("probe", {"flag": "${env:PROBE}"}).boolean("flag", default=False)
    assert LaminarError("it is true").message == "it is true"


def test_not_more_than_so_many_values_are_remembered() -> None:
    for number in range(3000):
        secrets.look_up("password", f"value {number:06d}", "${env:X}")
    assert len(secrets._looked_up) <= 1024
    assert secrets.told("value 002999") == "${env:X}"
