"""Which keys are grouped by their edges."""

from __future__ import annotations

import pytest

from laminar.delta.partials import grouping
from laminar.plan.nodes import Aggregate, Project, Scan

EDGES = "NAMED_STRUCT('start', c2.start, 'end', c2.end) AS c2"


@pytest.mark.parametrize(
    ("key", "listed", "by"),
    [
        ("`WINDOW`(c1, '1 minute')", EDGES, "c2.start, c2.end"),
        ("window(c1, '10 minutes', '5 minutes')", EDGES, "c2.start, c2.end"),
        # What is not the window itself may be NULL, or is no struct at all.
        ("`WINDOW`(c1, '1 minute').start", "c2", "c2"),
        ("COALESCE(`WINDOW`(c1, '1 minute'), c0)", "c2", "c2"),
        ("c1", "c2", "c2"),
    ],
)
def test_keys(key: str, listed: str, by: str) -> None:
    rows = Project(Scan("t", (("at", "c1"),)), ((key, "c2"),))
    found = grouping(Aggregate(rows, ("c2",), ()), lambda name: name)
    assert (found.listed, found.by) == (listed, by)
