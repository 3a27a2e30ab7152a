"""Names under which statements of one epoch know its relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import versions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_two_readers_may_want_different_segments_of_one_trace(spark: SparkSession) -> None:
    with laminar.connect(spark=spark) as db:
        db.execute("CREATE TABLE t (a INT)")
        for number in (1, 2):
            db.insert("t", [(number,)])
            db.step()
        engine = db.engine
        workspace, relations = engine.env.workspaces.first, engine.defined.catalog.relations
        versions = versions_of(relations, engine.ledger.manifest.traces)
        first, second = versions["t"].before
        bindings = Bindings(
            workspace.session,
            workspace.store,
            relations,
            versions,
            statement_cache=workspace.statement_cache,
        )
        one = bindings.bind_segments("t", (first,), "one")
        other = bindings.bind_segments("t", (second,), "other")
        for way in (bindings.run, bindings.compute):
            assert [row.a for row in way(f"SELECT a FROM {one}", ()).collect()] == [1]
            assert [row.a for row in way(f"SELECT a FROM {other}", ()).collect()] == [2]
