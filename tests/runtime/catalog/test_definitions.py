"""Definitions as a manifest carries them: what was written is read back, value for value."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.delta.emission import Emission, Mode
from laminar.delta.program import Shape
from laminar.model.event_time import Chain, Timing
from laminar.model.schema import Field
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
    from_json,
    timing_of,
    to_json,
)


def read_back(definitions: Sequence[Definition]) -> list[Definition]:
    """Return definitions after a way through a file."""
    written = json.dumps(to_json({each.name: each for each in definitions}))
    return from_json(json.loads(written))


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
OPTIONS = st.dictionaries(NAMES, NAMES, max_size=2)
COLUMNS = st.lists(st.tuples(NAMES, st.sampled_from(["INT", "STRING"]), st.booleans()), max_size=3)
TABLES = st.builds(
    TableDefinition,
    NAMES,
    COLUMNS.map(tuple),
    st.booleans(),
    st.none() | NAMES,
    OPTIONS,
    NAMES,
    st.lists(NAMES, max_size=2).map(tuple),
    st.none() | NAMES,
    st.integers(0, 10),
)
EMISSIONS = st.builds(
    Emission, st.sampled_from(Mode), st.integers(0, 9), st.none() | st.integers(0, 9), NAMES
)
VIEWS = st.builds(ViewDefinition, NAMES, NAMES, emission=EMISSIONS)
PAIRS = st.lists(st.tuples(NAMES, NAMES), max_size=3).map(tuple)
OPERATORS = st.builds(
    OperatorDefinition, NAMES, st.lists(NAMES, max_size=2).map(tuple), PAIRS, NAMES
)
LATE = st.builds(LateDefinition, NAMES, NAMES, NAMES)


@given(st.lists(TABLES | VIEWS | OPERATORS | LATE, unique_by=lambda each: each.name, max_size=4))
def test_what_was_written_is_read_back(definitions: list[Definition]) -> None:
    assert read_back(definitions) == definitions


@pytest.mark.parametrize(
    ("stored", "definition"),
    [
        # As the first versions wrote them: what came later has its default.
        ({"kind": "view", "name": "v", "query": "SELECT 1"}, ViewDefinition("v", "SELECT 1")),
        (
            {"kind": "table", "name": "t", "columns": [["a", "INT", True]]},
            TableDefinition("t", (("a", "INT", True),)),
        ),
        ({"kind": "late", "name": "l", "view": "v"}, LateDefinition("l", "v")),
        (
            {"kind": "view", "name": "v", "query": "q", "emission": {"mode": "final"}},
            ViewDefinition("v", "q", emission=Emission(Mode.FINAL)),
        ),
    ],
)
def test_what_an_older_version_has_written(
    stored: dict[str, object], definition: Definition
) -> None:
    assert from_json([stored]) == [definition]


def test_columns_of_a_table() -> None:
    table = TableDefinition("t", (("a b", "INT", False), ("s", "STRING", True)))
    assert table.shape == Shape("t", ("a b", "s"), ("INT", "STRING"))
    assert table.schema.fields == (Field("a b", "INT", nullable=False), Field("s", "STRING"))
    operator = OperatorDefinition("o", ("t",), (("a", "int"), ("b", "string")))
    assert operator.shape == Shape("o", ("a", "b"), ("int", "string"))


@pytest.mark.parametrize(
    ("is_source", "key", "upserts"),
    [(True, ("k",), True), (True, (), False), (False, ("k",), False), (False, (), False)],
)
def test_only_a_source_with_a_key_takes_rows_for_updates(
    is_source: bool, key: tuple[str, ...], upserts: bool
) -> None:
    assert TableDefinition("t", (), is_source, primary_key=key).upserts is upserts


def test_the_column_that_carries_event_time() -> None:
    assert timing_of(TableDefinition("t", ())) == Timing()
    assert timing_of(TableDefinition("t", (), event_time="ts")) == Timing({"ts": (Chain(),)})
