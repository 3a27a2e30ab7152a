"""Primary keys: what is refused, and the statements that find and replace rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from laminar.errors import DuplicateKey, NotSupported
from laminar.model.trace import ARRIVAL, WEIGHT, Segment
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.epoch.delivered_rows import DeliveredRows
from laminar.runtime.ingest.primary_keys import (
    clashes,
    refuse_found,
    refuse_twice,
    refuse_unfit_keys,
    replacement,
)

KEYED = TableDefinition(
    "s",
    (("k", "bigint", False), ("the day", "date", False), ("v", "string", True)),
    is_source=True,
    connector="numbers",
    primary_key=("k", "the day"),
)
SAME_KEY = "__r.`k` = __k.`k` AND __r.`the day` = __k.`the day`"


@pytest.mark.parametrize("kind", ["array<int>", "MAP<int,int>", "struct<a:int>", "binary"])
def test_a_key_must_have_values_that_are_compared_as_a_whole(kind: str) -> None:
    table = TableDefinition("t", (("k", kind, False), ("n", "int", True)), primary_key=("k",))
    with pytest.raises(NotSupported, match='"k" in a primary key'):
        refuse_unfit_keys(table)
    refuse_unfit_keys(replace(table, primary_key=("n",)))


def test_a_key_that_comes_twice_in_a_batch_is_named() -> None:
    rows = pa.table({"k": [1, 1, 1], "the day": ["a", "b", "a"], "v": ["x", "y", "z"]})
    with pytest.raises(DuplicateKey) as found:
        refuse_twice(KEYED, rows)
    assert "(1, 'a')" in str(found.value)
    refuse_twice(KEYED, rows.slice(0, 2))


def test_what_the_query_for_clashes_finds_is_refused() -> None:
    refuse_found(KEYED, pa.table({"k": [], "the day": []}))
    with pytest.raises(DuplicateKey, match=r"\(7, 'a'\)"):
        refuse_found(KEYED, pa.table({"k": [7], "the day": ["a"]}))


def test_clashes_look_only_at_keys_that_the_delta_brings() -> None:
    assert clashes(KEYED, "SELECT * FROM now", "SELECT * FROM d") == (
        "SELECT `k`, `the day` FROM ("
        f"SELECT `k`, `the day`, {WEIGHT} FROM (SELECT * FROM now) AS __r LEFT SEMI JOIN "
        f"(SELECT `k`, `the day` FROM (SELECT * FROM d) WHERE {WEIGHT} > 0) AS __k ON {SAME_KEY}"
        f" UNION ALL SELECT `k`, `the day`, {WEIGHT} FROM (SELECT * FROM d))"
        f" GROUP BY `k`, `the day` HAVING SUM({WEIGHT}) > 1 ORDER BY `k`, `the day` LIMIT 3"
    )


def test_an_upsert_is_the_new_rows_without_the_old_ones_of_their_keys() -> None:
    """delta = N - (S where key in K); a row that comes again as it is cancels out."""
    listed = "`k`, `the day`, `v`"
    assert replacement(KEYED, "SELECT * FROM now", "SELECT * FROM n") == (
        f"SELECT {listed}, IF(SUM({WEIGHT}) < 0, MAX(IF({WEIGHT} < 0, {ARRIVAL}, NULL)),"
        f" MAX(IF({WEIGHT} > 0, {ARRIVAL}, NULL))) AS {ARRIVAL}, SUM({WEIGHT}) AS {WEIGHT} FROM ("
        f"SELECT {listed}, {ARRIVAL}, 1L AS {WEIGHT} FROM (SELECT * FROM n)"
        f" UNION ALL SELECT {listed}, {ARRIVAL}, -{WEIGHT} AS {WEIGHT} FROM ("
        f"SELECT {listed}, {ARRIVAL}, {WEIGHT} FROM (SELECT * FROM now) AS __r LEFT SEMI JOIN "
        f"(SELECT `k`, `the day` FROM (SELECT * FROM n)) AS __k ON {SAME_KEY}))"
        f" GROUP BY {listed} HAVING SUM({WEIGHT}) <> 0"
    )


@pytest.mark.parametrize("table", [replace(KEYED, connector=None), replace(KEYED, primary_key=())])
def test_rows_that_are_a_delta_already_are_left_as_they_are(table: TableDefinition) -> None:
    delivered = Segment(("f",), 1, 1, 3, 10, True, ("x",))
    unused = cast("Any", None)
    assert DeliveredRows(unused, unused).resolve(table, delivered, (), 1) is delivered
