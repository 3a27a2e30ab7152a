"""What readers see: definitions and data that belong together."""

from __future__ import annotations

import pytest

from laminar.errors import NoCommonEpoch
from laminar.runtime.scheduling.view_progress import ViewProgress

from ..parts import catalog, manifest, segment, snapshot, trace

SCRIPT = """
CREATE TABLE t (k INT, x INT);
CREATE TABLE u (k INT, x INT);
CREATE MATERIALIZED VIEW a AS SELECT k, x FROM t;
CREATE MATERIALIZED VIEW b AS SELECT k, SUM(x) AS x FROM a GROUP BY k;
CREATE MATERIALIZED VIEW c AS SELECT b.k, u.x FROM b JOIN u ON b.k = u.k;
"""
CATALOG = catalog(SCRIPT)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], []),
        (["t"], ["t"]),
        (["a"], ["a", "t"]),
        (["c", "t"], ["c", "t", "a", "b", "u"]),
    ],
)
def test_relations_and_all_that_they_read(names: list[str], found: list[str]) -> None:
    assert snapshot(CATALOG).upstream(names) == found


@pytest.mark.parametrize(
    ("names", "epoch"),
    [(["t"], 9), ([], 9), (["c"], 9), (["b"], 5), (["b", "t"], 5), (["a", "b"], 3)],
)
def test_the_newest_epoch_that_relations_have(names: list[str], epoch: int) -> None:
    seen = snapshot(CATALOG, 9, progress=ViewProgress(behind={"a": 3, "b": 5}))
    assert seen.reach(seen.manifest, names) == epoch


def test_a_view_that_began_later_cannot_be_read_with_one_that_is_behind() -> None:
    progress = ViewProgress(behind={"a": 3}, filled={"b": 4, "c": 2})
    seen = snapshot(CATALOG, 9, progress=progress)
    assert seen.reach(seen.manifest, ["b", "c"]) == 9
    with pytest.raises(NoCommonEpoch, match='"b"'):
        seen.reach(seen.manifest, ["a", "b"])
    with pytest.raises(NoCommonEpoch, match='"b"'):
        seen.reach(seen.manifest, ["a", "c"])  # c itself was there, but what it reads was not


def test_storage_is_what_it_was_at_an_epoch() -> None:
    seen = snapshot(CATALOG, 9)
    assert seen.relations_at(seen.manifest) is CATALOG.relations
    assert CATALOG.relations.finished == {"b#1"}
    older = manifest(3, {"b": trace(segment(1))}, fused=frozenset({"a"}))
    then = seen.relations_at(older)
    assert (then.fused, then.finished) == (frozenset({"a"}), frozenset({"b"}))
    assert then.by_name is CATALOG.relations.by_name
