from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.store.names import folder_name

AWKWARD = ["a", "A", "a b", "a_b", "a.b", "a/b", "../a", "..", "", "`a`", '"a"', "ä", "a\u0308"]
AWKWARD += ["名", "名前", "*", "?", "a\x00b", "a\n", "\ud800", "x" * 300, "x" * 301, "con", "%20"]


def test_alike_names_get_folders_of_their_own() -> None:
    folders = {folder_name(name) for name in AWKWARD}
    # Also where case does not count.
    assert len({folder.lower() for folder in folders}) == len(AWKWARD)


@pytest.mark.parametrize("name", AWKWARD)
def test_folder_names_are_safe_everywhere(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9_]{1,40}-[0-9a-f]{16}", folder_name(name))


def test_folder_names_can_be_read() -> None:
    assert folder_name("Daily Orders").startswith("daily_orders-")


@given(st.text(), st.text())
def test_different_names_never_meet(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)
