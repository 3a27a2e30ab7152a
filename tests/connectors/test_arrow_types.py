"""Texts that stand for times: what passes is read as Spark reads it, all else is left to Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from laminar.connectors.arrow_types import INSTANT, from_text

CASES: list[tuple[list[str | None], bool]] = [
    (["2026-01-01T00:00:00.123", "2026-01-01T00:00:01.123"], True),
    (["2026-01-01T00:00:00.123", "2026-01-01T00:00:0x.123"], False),
    (["2026-01-01T00:00:00.123", "2026-01-01T00:00:00.12"], True),
    (["2026-01-01T00:00:00.123", None, "2026-01-01T00:00:00.123"], True),
    (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00+"], False),
    (["2026-01-01T00:00:00Z", "2026-01-01T00:00:0009"], False),
    (["2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00+18:00"], False),
    (["2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00+17:00"], True),
    (["2026-01-01T00:00:00", "2026-13-01T00:00:00"], False),
    (["2026-01-01", "é26-01-01"], False),
    ([None], True),
    ([], True),
]


@pytest.mark.parametrize(("texts", "passes"), CASES)
def test_what_passes(texts: list[str | None], passes: bool) -> None:
    whole = pa.chunked_array([pa.array(texts, pa.string())])
    # A slice starts in the middle of its buffers.
    part = pa.chunked_array([pa.array(["junk", *texts], pa.string())[1:]])
    for column in (whole, part):
        found = from_text(column, INSTANT)
        assert (found is not None) is passes
        if found is not None:
            assert found.null_count == texts.count(None)
