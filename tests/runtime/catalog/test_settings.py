"""Settings and view options: declared, typed, and refused where running does not heed them."""

from __future__ import annotations

import pytest

import laminar
from laminar.dag.diamond import DiamondSchedulePolicy
from laminar.errors import BadSetting, BadViewOption, UnknownSetting
from laminar.runtime.catalog.settings import SETTINGS, Settings
from laminar.runtime.catalog.view_options import OPTIONS, checked, resolve
from laminar.runtime.introspection.dependency_tree import dependency_lines


def test_every_setting_takes_its_own_default() -> None:
    for name, setting in SETTINGS.items():
        assert setting.checked(setting.default) == setting.default
        assert Settings().text(name) == setting.default
        assert setting.about


def test_setting_and_resetting() -> None:
    settings = Settings().with_value("LAMINAR.Retained_Epochs", "1_000")
    assert settings.number("retained_epochs") == 1000
    assert settings.given == {"retained_epochs": "1000"}
    assert settings.without("laminar.retained_epochs").given == {}
    assert Settings({"gone": "1", "compaction": "off"}).given == {"compaction": "off"}
    assert Settings().is_on("compaction")
    assert not Settings({"compaction": "off"}).is_on("compaction")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("laminar.retaind_epochs", "3", UnknownSetting),
        ("laminar.retained_epochs", "0", BadSetting),
        ("laminar.retained_epochs", "-1", BadSetting),
        ("laminar.retained_epochs", "2.5", BadSetting),
        ("laminar.retained_epochs", "1__0", BadSetting),
        ("laminar.retained_epochs", "_1", BadSetting),
        ("laminar.retained_epochs", "", BadSetting),
        ("laminar.compaction", "maybe", BadSetting),
        ("laminar.diamond_consistency", "some", BadSetting),
        ("laminar.trusted_functions", "rand", BadSetting),
        ("laminar.trusted_functions", "all, reflect", BadSetting),
        ("laminar.trusted_functions", "", BadSetting),
    ],
)
def test_bad_settings(name: str, value: str, error: type[laminar.LaminarError]) -> None:
    with pytest.raises(error):
        Settings().with_value(name, value)


def test_several_words() -> None:
    settings = Settings().with_value("laminar.trusted_functions", " Transform,REFLECT, reflect")
    assert settings.given == {"trusted_functions": "reflect, transform"}
    assert settings.trusts("trusted_functions", "reflect")
    assert not settings.trusts("trusted_functions", "java_method")
    assert not Settings().trusts("trusted_functions", "reflect")
    assert Settings({"trusted_functions": "all"}).trusts("trusted_functions", "identifier")


def test_options_have_defaults_from_settings() -> None:
    settings = Settings({"diamond_schedule_policy": "slowest"})
    found = resolve({"Refresh_Policy": "FULL"}, settings.text)
    assert found == {
        "refresh_policy": "full",
        "schedule": "every epoch",
        "diamond_consistency": "atomic",
        "diamond_schedule_policy": "slowest",
    }
    assert set(found) == set(OPTIONS)
    loose = Settings().with_value("laminar.diamond_consistency", "NONE")
    assert resolve({}, loose.text)["diamond_consistency"] == "none"
    assert resolve({"diamond_consistency": "Atomic"}, loose.text)["diamond_consistency"] == "atomic"
    assert resolve({"schedule": "1h30m"}, loose.text)["schedule"] == "1h30m"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"refresh_polcy": "full"}, BadViewOption),
        ({"refresh_policy": "never"}, BadViewOption),
        ({"diamond_consistency": "some"}, BadViewOption),
        ({"schedule": "often"}, BadViewOption),
        ({"schedule": "61 * * * *"}, BadViewOption),
    ],
)
def test_bad_options(given: dict[str, str], error: type[laminar.LaminarError]) -> None:
    with pytest.raises(error):
        checked(given)


def test_the_stricter_policy() -> None:
    fast, slow = DiamondSchedulePolicy.FASTEST, DiamondSchedulePolicy.SLOWEST
    assert fast.stricter(fast) is fast
    assert fast.stricter(slow) is slow
    assert slow.stricter(fast) is slow


def test_dependencies_as_a_line_or_a_tree() -> None:
    reads = {"a": (), "b": ("a",), "c": ("b",), "d": ("b", "c"), "e": ("d",), "x": ()}
    assert dependency_lines("a", reads) == ["a"]
    assert dependency_lines("c", reads) == ["c -> b -> a"]
    assert dependency_lines("e", reads) == [
        "e",
        "└─ d",
        "   ├─ b",
        "   │  └─ a",
        "   └─ c",
        "      └─ b (see above)",
    ]
