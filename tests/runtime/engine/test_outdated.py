"""Views that were stored by another plan than they have now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laminar.model.trace import Trace
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.engine.outdated import outdated
from laminar.runtime.relations.trace_versions import versions_of

from ..parts import catalog

SCRIPT = """
CREATE TABLE t (k INT, x INT);
CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(x) AS s FROM t GROUP BY k;
CREATE MATERIALIZED VIEW big AS SELECT s, COUNT(*) AS n FROM sums GROUP BY s;
CREATE MATERIALIZED VIEW other AS SELECT x, COUNT(*) AS n FROM t GROUP BY x;
"""


@pytest.fixture
def defined() -> Catalog:
    return catalog(SCRIPT, stored=("sums", "big", "other"))


def stored(defined: Catalog) -> dict[str, Trace]:
    """What a database has on disk that was written by the plans of today."""
    return {
        name: Trace(version.schema) for name, version in versions_of(defined.relations, {}).items()
    }


def test_what_today_s_plans_wrote_is_kept(defined: Catalog) -> None:
    assert outdated(defined, stored(defined)) == ()
    assert outdated(defined, {}) == ()


def test_another_column_is_another_plan_and_its_readers_go_with_it(defined: Catalog) -> None:
    traces = stored(defined)
    part = next(name for name in traces if name.startswith("sums"))
    traces[part] = replace(traces[part], schema=f"{traces[part].schema}, more INT")
    assert outdated(defined, traces) == ("sums", "big")


def test_a_part_that_no_plan_has_any_more_is_another_plan(defined: Catalog) -> None:
    traces = stored(defined)
    one = next(iter(traces.values()))
    traces["other#7"] = one
    assert outdated(defined, traces) == ("other",)
