"""What a connector declares of its options is what is checked, read and shown."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from laminar.connectors import (
    Option,
    Options,
    OptionType,
    SourceSpec,
    create_source,
    register_source,
    source_connectors,
    third_parties,
)
from laminar.connectors.catalogue import described, listed
from laminar.connectors.declared_options import require_fit
from laminar.connectors.sink import sink_connectors
from laminar.errors import (
    BadOption,
    ConnectorError,
    LaminarError,
    MissingOption,
    UnknownConnector,
    UnknownOption,
)
from laminar.errors.secrets import is_secret
from laminar.model.schema import Schema

DECLARED = (
    Option("host", "where it is", is_required=True),
    Option("port", "its port", OptionType.INTEGER, "80", at_least=1),
    Option("share", "how much", OptionType.NUMBER),
    Option("deep", "whether", OptionType.BOOLEAN),
    Option("pause", "how long", OptionType.DURATION),
    Option("mode", "how", OptionType.CHOICE, "a", choices=("a", "b")),
    Option("fields.<column>.kind", "what", OptionType.CHOICE, choices=("x", "y")),
)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"port": "8_080", "share": "0.5", "deep": "TRUE", "pause": "5s", "mode": "B"},
        {"fields.a.b.kind": "x"},
        {"PORT": "1"},
    ],
)
def test_what_fits_passes(given: dict[str, str]) -> None:
    require_fit("c", {"host": "h", **given}, DECLARED)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"port": "x"}, BadOption, "a whole number, 1 or more"),
        ({"port": "0"}, BadOption, "1 or more"),
        ({"share": "much"}, BadOption, "a number"),
        ({"deep": "1"}, BadOption, "true or false"),
        ({"pause": "5"}, BadOption, "a duration"),
        ({"mode": "c"}, BadOption, "one of: a, b"),
        ({"fields.k.kind": "z"}, BadOption, "one of: x, y"),
        ({"prot": "1"}, UnknownOption, 'did you mean "port"?'),
        ({"fields.k.kinds": "x"}, UnknownOption, 'did you mean "fields.k.kind"?'),
    ],
)
def test_what_does_not_is_refused(
    given: dict[str, str], error: type[LaminarError], told: str
) -> None:
    with pytest.raises(error) as found:
        require_fit("c", {"host": "h", **given}, DECLARED)
    assert told in found.value.hint


def test_what_is_required_has_to_be_given() -> None:
    with pytest.raises(MissingOption, match="host"):
        require_fit("c", {"port": "1"}, DECLARED)


def test_no_code_of_a_connector_runs_before() -> None:
    def never(_spec: SourceSpec) -> Any:
        raise AssertionError

    register_source("declared", never, options=DECLARED)
    with pytest.raises(UnknownOption):
        create_source("declared", SourceSpec("s", Schema.parse("a INT"), {"hots": "h"}))


def test_what_is_special_about_an_option_follows_from_it() -> None:
    register_source(
        "special",
        lambda _spec: None,  # type: ignore[arg-type, return-value]
        options=[Option("mantra", "", is_secret=True), Option("n", "", is_alterable=True)],
    )
    (side,) = described("special")
    assert [each.name for each in side.options] == ["mantra", "n"]
    assert is_secret("mantra")


@pytest.mark.parametrize("name", sorted({*source_connectors(), *sink_connectors()}))
def test_connectors_that_come_along_declare_all_that_they_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked of the options while one is built is declared."""
    asked: list[str] = []
    read = Options.__getitem__

    def noted(self: Options, key: str) -> str:
        asked.append(key)
        return read(self, key)

    monkeypatch.setattr(Options, "__getitem__", noted)
    for side in described(name):
        if not side.options:
            continue  # one of another test
        file = tmp_path / "f.csv"
        file.write_text("a\n")
        given = {"path": str(file if side.kind == "source" else tmp_path / "x")}
        given = {
            key: each for key, each in given.items() if any(o.name == key for o in side.options)
        }
        asked.clear()
        _build(name, side.kind, given)
        for key in asked:
            assert any(option.fits(key) for option in side.options), key


def _build(name: str, kind: str, options: dict[str, str]) -> None:
    from laminar.connectors.sink import SinkSpec, create_sink

    schema = Schema.parse("a STRING")
    if kind == "source":
        create_source(name, SourceSpec("s", schema, options))
    else:
        create_sink(name, SinkSpec("s", "v", schema, options))


class Offered:
    """Packages that offer connectors."""

    def __init__(self, patch: pytest.MonkeyPatch, **offers: Any) -> None:
        self.loaded: list[str] = []
        points = [EntryPoint(name, f"package:{name}", third_parties.GROUP) for name in offers]

        def load(point: EntryPoint) -> Any:
            self.loaded.append(point.name)
            return offers[point.name]

        patch.setattr(EntryPoint, "load", load)
        patch.setattr(third_parties, "entry_points", lambda **_: points)
        patch.setattr(third_parties, "_loaded", set())


def test_a_package_is_loaded_when_its_connector_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Weather:
        append_only = True

        def latest_offset(self, start: Any) -> Any: ...
        def read(self, *_: Any) -> Any: ...

    def register() -> None:
        register_source("Weather", lambda _spec: Weather(), about="how it is")

    offered = Offered(monkeypatch, weather=register, other=lambda: None)
    spec = SourceSpec("s", Schema.parse("a INT"))
    with pytest.raises(UnknownConnector) as found:
        create_source("wether", spec)
    assert found.value.suggestion == "weather"
    assert offered.loaded == []
    assert isinstance(create_source("WEATHER", spec), Weather)
    create_source("weather", spec)
    assert offered.loaded == ["weather"]


def test_a_package_that_fails_is_told_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def register() -> None:
        raise ImportError("no module named sky")

    Offered(monkeypatch, broken_sky=register)
    with pytest.raises(ConnectorError, match="broken_sky"):
        create_source("broken_sky", SourceSpec("s", Schema.parse("a INT")))
    found = {each.name: each for each in listed()}
    assert found["broken_sky"].kind == ""
    assert "no module named sky" in found["broken_sky"].about
    assert found["files"].options
