from __future__ import annotations

from pathlib import Path

from laminar.model.quoting import source_uri, target_uri


def test_a_path_is_no_pattern_to_a_reader() -> None:
    path = Path("/a[1]/{x,y}*?\\")
    assert source_uri(path) == r"file:///a\[1\]/\{x,y\}\*\?" + "\\\\"
    assert target_uri(path) == "file:///a[1]/{x,y}*?\\"
