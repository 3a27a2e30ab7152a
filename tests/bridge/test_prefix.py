from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from laminar.bridge.prefix import Prefix, PrefixStage, last_of_each

ROWS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None]), st.integers()))


def table(rows: list[tuple[int, str | None, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    schema = pa.schema([("k", pa.int64()), ("g", pa.string()), ("x", pa.int64())])
    rows_of = zip(columns, schema, strict=True)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in rows_of], schema=schema)


@given(st.lists(ROWS.map(lambda rows: [(k, g, x % 100) for k, g, x in rows]), max_size=5))
def test_only_the_last_row_of_a_key_crosses_and_nothing_else_changes(
    polls: list[list[tuple[int, str | None, int]]],
) -> None:
    """A source that replaces rows by key ends with the same rows, in the same order of arrival."""
    prefix, stage = Prefix(("k", "g", "x"), key=("k", "g")), PrefixStage()
    all_rows: dict[tuple[int, str | None], int] = {}
    kept_rows: dict[tuple[int, str | None], int] = {}
    for poll in polls:
        kept = stage.run(prefix, table(poll))
        found = [(row["k"], row["g"], row["x"]) for row in kept.to_pylist()]
        expected = {(k, g): (at, x) for at, (k, g, x) in enumerate(poll)}
        assert found == [(*key, x) for key, (_, x) in sorted(expected.items(), key=lambda e: e[1])]
        all_rows |= {(k, g): x for k, g, x in poll}
        kept_rows |= {(k, g): x for k, g, x in found}
    assert kept_rows == all_rows
    assert stage.counters.rows_in == sum(map(len, polls))
    assert stage.counters.rows_kept <= stage.counters.rows_in


def test_keys_that_are_equal_only_to_spark_are_left_to_spark() -> None:
    """Zeros of both signs, and what is not a number: taking them for one is not ours to do."""
    values = pa.table({"k": [0.0, -0.0, math.nan, math.nan, 1.0, 1.0], "x": range(6)})
    found = last_of_each(values, ["k"])
    assert found["x"].to_pylist()[-1] == 5
    assert {1, 3, 5} <= set(found["x"].to_pylist())
