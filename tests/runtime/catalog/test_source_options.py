"""Options of the way into the engine: each is read, refused, and written back in one way."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.bridge import BackpressureStrategy, BatchPolicy, DropNewest, PauseSource, SpillToDisk
from laminar.bridge.pipeline import CAPACITY_BYTES, CAPACITY_ROWS
from laminar.errors import BadOption, LaminarError, NotSupported, UnknownOption
from laminar.runtime.catalog.source_options import (
    OWN,
    InletOptions,
    changed,
    for_connector,
    parse,
    to_options,
)

SPILL = {"backpressure": "spill"}


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({}, "strategy", PauseSource()),
        ({"BackPressure": "DROP"}, "strategy", DropNewest()),
        (SPILL, "strategy", SpillToDisk(1 << 30, PauseSource())),
        ({**SPILL, "max_spill_bytes": "9"}, "strategy", SpillToDisk(9, PauseSource())),
        ({**SPILL, "after_spill": "drop"}, "strategy", SpillToDisk(1 << 30, DropNewest())),
        ({"max_rows": "1_000"}, "policy", BatchPolicy(max_rows=1000)),
        ({"max_bytes": "5"}, "policy", BatchPolicy(max_bytes=5)),
        ({"max_latency": "3 s"}, "policy", BatchPolicy(max_latency=timedelta(seconds=3))),
        ({"flush_on_watermark": "false"}, "policy", BatchPolicy(flush_on_watermark=False)),
        ({"buffer_rows": "7"}, "buffer_rows", 7),
        ({"buffer_bytes": "7"}, "buffer_bytes", 7),
        ({"poll_interval": "2 s"}, "poll_interval_ms", 2000),
        ({}, "poll_interval_ms", 100),
        ({}, "idle_timeout_ms", None),
        ({"idle_timeout": "30 seconds"}, "idle_timeout_ms", 30_000),
        ({"watermark_alignment_group": "g"}, "max_drift_us", 60_000_000),
        ({"watermark_alignment_group": "g", "max_drift": "1 ms"}, "max_drift_us", 1000),
        ({"watermark_alignment_group": "g"}, "alignment_group", "g"),
        ({}, "keeps_all", True),
        ({"retain": "used"}, "keeps_all", False),
        ({"path": "x"}, "keeps_all", True),
    ],
)
def test_what_an_option_says(options: dict[str, str], field: str, value: object) -> None:
    assert getattr(parse(options, pushed=False), field) == value


@pytest.mark.parametrize(
    ("options", "pushed", "rows"),
    [
        ({}, False, CAPACITY_ROWS),
        ({}, True, None),  # rows that are pushed lie on disk: nothing bounds them
        (SPILL, True, None),
        ({"backpressure": "pause"}, True, CAPACITY_ROWS),
        ({"backpressure": "drop"}, True, CAPACITY_ROWS),
        ({"buffer_rows": "5"}, True, 5),
    ],
)
def test_how_many_rows_may_wait(options: dict[str, str], pushed: bool, rows: int | None) -> None:
    found = parse(options, pushed=pushed)
    assert (found.buffer_rows, found.buffer_bytes) == (rows, CAPACITY_BYTES)


def test_without_options_all_have_their_defaults() -> None:
    assert parse({}, pushed=False) == InletOptions()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"backpressure": "wait"}, BadOption),
        ({"max_rows": "0"}, BadOption),
        ({"max_bytes": "many"}, BadOption),
        ({"max_latency": "soon"}, BadOption),
        ({"flush_on_watermark": "maybe"}, BadOption),
        ({"buffer_rows": "0"}, BadOption),
        ({"idle_timeout": "0 s"}, BadOption),
        ({"retain": "some"}, BadOption),
        # Options that say nothing without another one.
        ({"max_spill_bytes": "9"}, UnknownOption),
        ({"after_spill": "drop"}, UnknownOption),
        ({"max_drift": "1 s"}, UnknownOption),
    ],
)
def test_what_is_refused(options: dict[str, str], error: type[LaminarError]) -> None:
    with pytest.raises(error):
        parse(options, pushed=False)


def test_nobody_polls_for_rows_that_are_pushed() -> None:
    with pytest.raises(NotSupported, match="poll_interval"):
        parse({"poll_interval": "1 s"}, pushed=True)


def test_a_connector_sees_its_own_options_alone() -> None:
    given = {**dict.fromkeys(OWN, "x"), "Max_Rows": "5", "path": "p", "MaxRows": "q"}
    assert for_connector(given) == {"path": "p", "MaxRows": "q"}


SIMPLE = st.sampled_from([PauseSource(), DropNewest()])
STRATEGIES = SIMPLE | st.builds(SpillToDisk, st.integers(1, 1 << 40), SIMPLE)
POLICIES = st.builds(
    BatchPolicy,
    max_rows=st.integers(1, 1 << 30),
    max_latency=st.timedeltas(timedelta(microseconds=1), timedelta(seconds=59)),
    flush_on_watermark=st.booleans(),
    max_bytes=st.integers(1, 1 << 40),
)


@given(POLICIES, STRATEGIES)
def test_python_values_come_back_from_their_words(
    policy: BatchPolicy, strategy: BackpressureStrategy
) -> None:
    found = parse(to_options(policy, strategy), pushed=False)
    assert (found.policy, found.strategy) == (policy, strategy)


@pytest.mark.parametrize(
    ("options", "given", "found"),
    [
        ({"a": "1", "max_rows": "5"}, {"max_rows": "6"}, {"a": "1", "max_rows": "6"}),
        ({"Max_Rows": "5"}, {"max_rows": "6"}, {"max_rows": "6"}),
        ({**SPILL, "max_spill_bytes": "9"}, {"backpressure": "drop"}, {"backpressure": "drop"}),
        (
            {"Backpressure": "Spill", "max_spill_bytes": "9"},
            {"max_rows": "5"},
            {"backpressure": "Spill", "max_spill_bytes": "9", "max_rows": "5"},
        ),
        ({"max_rows": "5"}, SPILL, {"max_rows": "5", **SPILL}),
        ({"Path": "x"}, {"path": "y"}, {"Path": "x", "path": "y"}),  # its connector's business
    ],
)
def test_options_that_are_set_anew(
    options: dict[str, str], given: dict[str, str], found: dict[str, str]
) -> None:
    assert changed(options, given) == found
