"""The work of an epoch at each node, as far as it is handed on; no statement runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from laminar.dag import DagNode
from laminar.runtime.epoch.flight import DeltaNotice
from laminar.runtime.epoch.maintainer import Maintainer
from laminar.runtime.epoch.node_task import EpochTask
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of

from ..parts import NO_SPARK, catalog, segment

CATALOG = catalog(
    """
    CREATE TABLE t (k INT, x INT);
    CREATE MATERIALIZED VIEW cheap AS SELECT k, x FROM t WHERE x > 0;
    CREATE MATERIALIZED VIEW dear AS SELECT k, x, UPPER(x) AS h FROM t;
    CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(x) AS x FROM cheap GROUP BY k;
    CREATE MATERIALIZED VIEW hashes AS SELECT h, COUNT(*) AS n FROM dear GROUP BY h;
    CREATE MATERIALIZED VIEW both AS SELECT a.k FROM dear a JOIN cheap b ON a.k = b.k;
    """
)


def task(held: str = "", refused: type[Maintainer] | None = None) -> EpochTask:
    versions = versions_of(CATALOG.relations, {})
    bindings = Bindings(NO_SPARK, NO_SPARK, CATALOG.relations, versions)
    maintainer = (refused or Maintainer)(bindings, NO_SPARK, 9, NO_SPARK)
    return EpochTask(CATALOG, bindings, maintainer, frozenset(held.split()), {}, 10)


def node(name: str) -> DagNode:
    found = CATALOG.dag.node_id_by_name(name)
    assert found is not None
    return CATALOG.dag.nodes[found]


def test_a_view_that_is_held_does_nothing() -> None:
    one = task(held="sums")
    assert one.leaves_out("sums")
    assert not one.leaves_out("cheap")
    assert one.run(node("sums"), []) is None
    assert one.reports == {}


def test_a_view_whose_inputs_did_not_change_reports_no_rows() -> None:
    one = task()
    assert one.run(node("sums"), []) is None
    assert (one.reports["sums"].rows_out, one.reports["sums"].strategy) == (0, "incremental")


def test_what_a_node_made_is_what_the_next_epoch_starts_from() -> None:
    earlier, later = task(), task()
    old, new = segment(1), segment(2)
    for trace in ("t", "sums#1!partial"):
        earlier._bindings.versions[trace] = TraceVersions("", (old,), (new,))
    earlier.finished(node("t"))
    later.follow(earlier)
    found = later._bindings.versions
    assert found["t"].before == (old, new)
    assert not found["sums#1!partial"].before  # it has not finished
    earlier.finished(node("sums"))
    assert found["sums#1!partial"] == TraceVersions(found["sums#1!partial"].schema, (old, new))


@pytest.mark.parametrize(
    ("view", "shared"),
    [("dear", True), ("cheap", False), ("both", False)],  # cheap to compute; a file already
)
def test_a_delta_that_several_read_is_computed_once(
    view: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = task()
    kept: list[str] = []
    monkeypatch.setattr(one._bindings, "share", kept.append)
    monkeypatch.setattr(one._bindings, "unshare", lambda name: kept.remove(name))
    notice = DeltaNotice(view, 5)
    found = one.share(node(view), notice)
    assert kept == ([view] if shared else [])
    found.release()
    assert kept == []


def test_only_aggregates_that_run_share_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def plan(members: list[Any], *_: object) -> dict[str, Any]:
        asked.append([each.shape.name for each in members])
        return {"sums#1": cast("Any", SimpleNamespace())}

    monkeypatch.setattr("laminar.runtime.epoch.node_task.plan_shared_scans", plan)
    one = task()
    one.prepare([node("sums"), node("hashes"), node("both")])
    assert asked == [["sums#1", "hashes#1"]]
    assert set(one._maintainer.shared) == {"sums#1"}
    task(held="hashes").prepare([node("sums"), node("hashes")])
    assert len(asked) == 1  # one alone has nobody to share with
