"""Traces are kept short beside the epochs; what they hold stays the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from laminar.errors import SparkLost
from laminar.model.trace import Segment, Trace
from laminar.runtime.event_time.late_batch import LATE_ROWS
from laminar.runtime.history import compactor as module
from laminar.runtime.history.compactor import YOUNG_EPOCHS, Compactor

from ..parts import NO_SPARK, catalog, segment, trace
from ..spark_parts import SparkParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = catalog(
    "CREATE TABLE t (k INT, x INT);"
    "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS s FROM t GROUP BY k"
).relations


class Store:
    """Knows the columns of a schema, and nothing else."""

    def struct(self, _schema: str) -> StructType:
        return StructType()


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The traces that are compacted, and whether rows are only put together."""
    found: list[tuple[str, bool]] = []

    def compact(
        _store: object,
        name: str,
        epoch: int,
        _schema: str,
        group: tuple[Segment, ...],
        rule: Callable[[Any], Any] | None,
    ) -> Segment:
        found.append((name, rule is None))
        rows = sum(each.rows for each in group)
        return segment(group[0].lo, group[-1].hi, rows, files=(f"{name}-{epoch}",))

    monkeypatch.setattr(module, "compact", compact)
    return found


def many(*flags: bool, step: int = 1, rows: int = 1) -> list[Segment]:
    """Segments of one epoch each; those with a false flag take rows back."""
    return [
        segment(number * step + 1, rows=rows, insert_only=flag, units=flag)
        for number, flag in enumerate(flags)
    ]


@pytest.fixture
def compacting() -> Iterator[Compactor]:
    made = Compactor(NO_SPARK, Store())  # type: ignore[arg-type]
    yield made
    made.close()


def test_one_that_does_not_come_back_when_spark_is_lost_is_left_behind(
    ways: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, made = threading.Event(), Compactor(NO_SPARK, Store())  # type: ignore[arg-type]
    run = made._run

    def held(*given: Any) -> Any:
        assert gate.wait(60)
        return run(*given)

    def lost(_is_over: object) -> None:
        raise SparkLost("it is dead", is_restarted=False)

    monkeypatch.setattr(made, "_run", held)
    made.outlast = lost
    assert made.submit({"t": trace(*many(*[True] * 8))}, RELATIONS, 8)
    with pytest.raises(SparkLost):
        made.adopt({}, wait=True)
    made.close()
    assert made._running is not None
    assert not made._running.done()
    gate.set()
    made._running.result(60)
    assert ways


def test_nothing_to_do_starts_nothing(compacting: Compactor, ways: list[tuple[str, bool]]) -> None:
    assert not compacting.submit({"t": trace(*many(True, True))}, RELATIONS, 9)
    assert not compacting.is_ready
    assert compacting.adopt({"t": trace()}, wait=True) == {"t": trace()}
    late = {LATE_ROWS: trace(*many(*[True] * 20))}
    assert not compacting.submit(late, RELATIONS, 9)  # those are only looked at
    assert ways == []


def test_neighbours_become_one_and_what_came_meanwhile_stays(
    compacting: Compactor, ways: list[tuple[str, bool]]
) -> None:
    olds = many(*[True] * 8)
    assert compacting.submit({"t": trace(*olds)}, RELATIONS, 8)
    assert compacting.submit({"t": trace(*olds)}, RELATIONS, 8)  # one at a time
    newer = segment(9)
    found = compacting.adopt({"t": trace(*olds, newer)}, wait=True)
    assert [(each.lo, each.hi, each.rows) for each in found["t"].segments] == [(1, 8, 8), (9, 9, 1)]
    assert ways == [("t", True)]
    assert compacting.adopt(found) == found


def test_epochs_that_somebody_stands_at_stay_apart(
    compacting: Compactor, ways: list[tuple[str, bool]]
) -> None:
    traces = {"t": trace(*many(*[True] * 10))}
    assert not compacting.submit(traces, RELATIONS, 10, cursors=[5])
    compacting.fanout = 4
    assert compacting.submit(traces, RELATIONS, 10, cursors=[5])
    found = compacting.adopt(traces, wait=True)["t"].segments
    assert 5 in {each.hi for each in found}
    assert len(found) < 10
    assert len(ways) == 2


def test_a_trace_that_was_dropped_or_built_anew_is_left_alone(
    compacting: Compactor, ways: list[tuple[str, bool]]
) -> None:
    traces = {"t": trace(*many(*[True] * 8)), "u": trace(*many(*[True] * 8))}
    compacting.submit(traces, RELATIONS, 8)
    anew = {"u": trace(segment(8, rows=3))}
    assert compacting.adopt(anew, wait=True) == anew
    assert len(ways) == 2


def failing(monkeypatch: pytest.MonkeyPatch, on: set[str]) -> list[str]:
    """Let compactions of some traces fail; return which were tried."""
    tried: list[str] = []

    def compact(_store: object, name: str, *_about: Any) -> Segment:
        tried.append(name)
        if name in on:
            raise OSError(28, "No space left on device")
        return segment(1, 8, 8)

    monkeypatch.setattr(module, "compact", compact)
    return tried


def test_one_that_fails_fails_nothing_else_and_is_tried_again_later(
    compacting: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = {"t"}
    tried = failing(monkeypatch, on)
    traces = {"t": trace(*many(*[True] * 8))}
    begun = []
    for epoch in range(9, 21):
        begun.append(compacting.submit(traces, RELATIONS, epoch))
        assert compacting.adopt(traces, wait=True) == traces
    pauses = [True, False, True, False, False, True, *[False] * 4, True, False]
    assert begun == pauses
    assert (len(tried), compacting.failures) == (4, 4)
    assert "No space left" in str(compacting.error)
    on.clear()
    while not compacting.submit(traces, RELATIONS, 21):
        pass
    assert len(compacting.adopt(traces, wait=True)["t"].segments) == 1
    assert (compacting.failures, compacting.error) == (4, None)
    assert compacting.submit(traces, RELATIONS, 22)  # it waits for nothing any more


def test_what_was_finished_before_a_failure_is_adopted(
    compacting: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failing(monkeypatch, {"u"}) == []
    traces = {name: trace(*many(*[True] * 8)) for name in ("t", "u")}
    compacting.submit(traces, RELATIONS, 8)
    found = compacting.adopt(traces, wait=True)
    assert {name: len(each.segments) for name, each in found.items()} == {"t": 1, "u": 8}


@pytest.mark.parametrize(
    ("name", "segments", "cutoff", "copies"),
    [
        ("t", many(*[True] * 8), None, True),
        ("t", many(*[True] * 8), ("ts", 5), False),  # rows of no use are not written again
        ("t", many(*[True] * 7, False), None, False),  # what cancels out is added up
        # Partial rows of few epochs are only put together, of more epochs they are merged.
        ("v#1!partial", many(*[True] * 8), None, True),
        ("v#1!partial", many(*[True] * 8, step=YOUNG_EPOCHS), None, False),
        ("v#1!partial", many(*[True] * 7, False), None, False),
    ],
)
def test_how_rows_are_put_together(
    compacting: Compactor,
    ways: list[tuple[str, bool]],
    name: str,
    segments: list[Segment],
    cutoff: tuple[str, int] | None,
    copies: bool,
) -> None:
    traces = {name: trace(*segments)}
    cutoffs = {} if cutoff is None else {name: cutoff}
    assert compacting.submit(traces, RELATIONS, 8, cutoffs)
    compacting.adopt(traces, wait=True)
    assert ways == [(name, copies)]


@pytest.mark.parametrize(("step", "adopted"), [(1, True), (YOUNG_EPOCHS, False)])
def test_a_retraction_must_find_the_partial_row_it_names(
    compacting: Compactor, ways: list[tuple[str, bool]], step: int, adopted: bool
) -> None:
    name, olds = "v#1!partial", many(*[True] * 8, step=step)
    compacting.submit({name: trace(*olds)}, RELATIONS, 8)
    gone = segment(olds[-1].hi + 1, insert_only=False, units=False)
    found = compacting.adopt({name: trace(*olds, gone)}, wait=True)[name]
    assert (len(found.segments) == 2) is adopted
    assert len(ways) == 1


def test_large_segments_are_merged_rarely(
    compacting: Compactor, ways: list[tuple[str, bool]]
) -> None:
    large = {"t": trace(*many(*[True] * 8, rows=module.LARGE_ROWS))}
    assert not compacting.submit(large, RELATIONS, 8)
    changed = {"t": trace(*many(*[True] * 7, False, rows=module.LARGE_ROWS))}
    assert compacting.submit(changed, RELATIONS, 8)
    compacting.adopt(changed, wait=True)
    assert len(ways) == 1


# With Spark: what is merged holds the same


@pytest.mark.spark
def test_what_is_compacted_holds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    queries = {
        "v": "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY k",
        "w": "SELECT k, MAX(x) AS m FROM t GROUP BY k",
        "j": "SELECT t.k, t.x, u.k AS other FROM t JOIN u ON t.k = u.k",
    }
    script = "CREATE TABLE t (k INT, x INT); CREATE TABLE u (k INT);" + "".join(
        f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in queries.items()
    )
    parts = SparkParts(tmp_path, spark, script)
    compacting = parts.ledger.compactor
    compacting.fanout = 3
    parts.step(u=[(1, 1)])
    for number in range(6):
        change = [(number % 2, number, 1)]
        if number > 3:
            change.append((number % 2, number - 2, -1))
        parts.step(t=change)
    before = parts.ledger.manifest.traces
    while compacting.submit(
        parts.ledger.manifest.traces, parts.defined.catalog.relations, parts.ledger.epoch
    ):
        parts.ledger.recommit(compacting.adopt(parts.ledger.manifest.traces, wait=True))
    after = parts.ledger.manifest.traces
    assert count(after) < count(before)
    assert {"t", "v#1!partial", "w#1!partial", "j"} <= {
        name for name in after if len(after[name].segments) < len(before[name].segments)
    }
    for view, (stored, truth) in parts.compared(queries).items():
        assert stored == truth, view
    parts.step(t=[(0, 4, -1), (1, 9, 1)])
    for view, (stored, truth) in parts.compared(queries).items():
        assert stored == truth, view
    parts.close()


def count(traces: Any) -> int:
    return sum(len(each.segments) for each in dict[str, Trace](traces).values())
