"""Limits of event time: the same whether nobody says anything, or SET says the default."""

from __future__ import annotations

import pytest

from laminar.runtime.catalog.settings import SETTINGS, TimeSettings, wall_clock


@pytest.mark.parametrize("name", ["future_ms", "late_rows_kept", "aging_rows"])
def test_defaults_are_those_of_the_settings(name: str) -> None:
    assert str(getattr(TimeSettings(), name)) == SETTINGS[name].default


def test_without_a_word_silence_lasts_for_ever() -> None:
    assert TimeSettings().idle_timeout_ms is None
    assert SETTINGS["idle_timeout_ms"].default == "0"


def test_the_wall_clock_counts_milliseconds() -> None:
    assert TimeSettings().clock is wall_clock
    assert len(str(wall_clock())) == 13  # until the year 2286
