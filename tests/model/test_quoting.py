from __future__ import annotations

from laminar.model.quoting import backquoted, string_literal


def test_a_name_keeps_its_signs() -> None:
    assert backquoted("a.b`c") == "`a.b``c`"


def test_a_string_keeps_its_signs() -> None:
    assert string_literal("it's \\n") == r"'it\'s \\n'"
