"""Which views move with the next epoch, from epoch to epoch; nothing runs a statement."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.errors import NoCommonEpoch
from laminar.model.state import EngineState
from laminar.mv.retry import Failure, RetryPolicy
from laminar.runtime.scheduling.epoch_plan import Hold, Move, Skip
from laminar.runtime.scheduling.scheduler import Counters
from laminar.runtime.scheduling.view_progress import ViewProgress

from ..parts import START_MS, Parts, segment, trace

NOW = START_MS

DIAMOND = """
CREATE TABLE t (k INT, x INT);
CREATE MATERIALIZED VIEW b AS SELECT k, x FROM t;
CREATE MATERIALIZED VIEW c AS SELECT k, x FROM t;
CREATE MATERIALIZED VIEW d AS SELECT b.k, c.x FROM b JOIN c ON b.k = c.k;
CREATE MATERIALIZED VIEW e AS SELECT k FROM d;
CREATE MATERIALIZED VIEW other AS SELECT x FROM t;
"""
HOURLY = DIAMOND.replace("VIEW e", "VIEW e WITH (schedule = '1h')")
VIEWS = ("b", "c", "d", "e", "other")


class DiskFull(Exception):
    """Stands for whatever keeps a commit from happening."""


def cursors(parts: Parts) -> dict[str, int]:
    return {view: parts.scheduler.cursor(view) for view in VIEWS}


# From epoch to epoch


def test_in_lockstep_every_view_is_at_the_newest_epoch() -> None:
    parts = Parts(DIAMOND)
    assert parts.scheduler.is_even()
    assert parts.run().moves == (Move(0, 1, frozenset(VIEWS)),)
    assert set(cursors(parts).values()) == {1}
    assert parts.scheduler.since == {}


def test_a_paused_member_holds_its_group_and_its_readers_and_they_catch_up() -> None:
    parts = Parts(DIAMOND)
    parts.pause("c")
    for _ in range(3):
        plan = parts.run()
    assert plan.held["d"].told("d") == "waits for c (paused)"
    assert cursors(parts) == {"b": 0, "c": 0, "d": 0, "e": 0, "other": 3}
    assert parts.scheduler.since == {"b": 0, "c": 0, "d": 0, "e": 0}
    assert not parts.scheduler.is_even()
    parts.resume("c")
    plan = parts.run()
    assert plan.moves == (
        Move(3, 4, frozenset({"other"})),
        Move(0, 4, frozenset({"b", "c", "d", "e"})),
    )
    assert parts.scheduler.since == {}


def test_a_schedule_counts_from_the_last_step() -> None:
    parts = Parts(HOURLY)
    assert parts.scheduler.schedules()["e"].text == "1h"
    parts.run()
    assert parts.scheduler.cursor("e") == 1
    parts.clock.advance(3599)
    assert parts.run().held["e"].reason is Skip.NOT_DUE
    assert parts.scheduler.cursor("e") == 1
    parts.clock.advance(1)
    parts.run()
    assert parts.scheduler.cursor("e") == 3
    assert parts.run(forced=parts.scheduler.with_inputs(["e"])).held == {}
    parts.clock.advance(3600)
    assert parts.scheduler.held() == set()
    assert not parts.scheduler.is_even()  # a schedule is not lockstep, even if nothing is held now


def test_a_failing_view_waits_longer_and_longer_and_is_suspended() -> None:
    parts = Parts(DIAMOND, settings={"max_failures": "4", "retry_backoff_ms": "1000"})
    assert parts.scheduler.retry_policy() == RetryPolicy(1000, 300_000, 4)
    parts.run(failing=["c"])
    assert cursors(parts) == {"b": 0, "c": 0, "d": 0, "e": 0, "other": 1}
    assert parts.run(failing=["c"]).held == {}  # the first retry comes with the next epoch
    for wait in (1, 2):
        held = parts.run(failing=["c"]).held
        assert held["c"] == Hold(Skip.BACKING_OFF, "c", "it was told to")
        assert held["d"].because == "c"
        parts.clock.advance(wait)
        assert "c" not in parts.run(failing=["c"]).held
    assert parts.scheduler.progress.failures["c"].is_suspended
    parts.clock.advance(10_000)
    assert parts.run(forced=parts.scheduler.with_inputs(["c"])).held["c"].reason is Skip.SUSPENDED


def test_views_that_were_tried_in_vain_are_planned_to_stay() -> None:
    found = Parts(DIAMOND).scheduler.plan(NOW, failed={"c": "boom"})
    assert found.held["c"] == Hold(Skip.FAILED, "c", "boom")
    assert found.stepping() == {"other"}
    forced = Parts(DIAMOND).scheduler.plan(NOW, VIEWS, {"c": "boom"})
    assert forced.stepping() == {"other"}


def test_success_forgives() -> None:
    parts = Parts(DIAMOND)
    parts.run(failing=["other"])
    assert parts.scheduler.progress.failures["other"].count == 1
    parts.run()
    assert parts.scheduler.progress.failures == {}


def test_a_view_that_is_built_anew_is_left_alone() -> None:
    parts = Parts(DIAMOND)
    with parts.scheduler.locked(["c"]):
        with parts.scheduler.locked(["other"]):
            assert set(parts.run().held) == set(VIEWS)
        assert parts.run().held["c"] == Hold(Skip.LOCKED, "c")
        assert parts.scheduler.cursor("other") == 2
    with pytest.raises(DiskFull), parts.scheduler.locked(["c"]):
        raise DiskFull
    assert parts.run().held == {}


def test_a_gated_source_holds_who_reads_it() -> None:
    parts = Parts(DIAMOND + "CREATE TABLE u (x INT); CREATE MATERIALIZED VIEW f AS SELECT x FROM u")
    parts.gate("u")
    assert parts.run().held == {"f": Hold(Skip.GATED, "u")}
    parts.gate("t")
    assert set(parts.run().held) == set(VIEWS)


# Questions


def test_where_relations_can_be_read_together() -> None:
    progress = ViewProgress(behind={"b": 3, "c": 5}, filled={"d": 4})
    scheduler = Parts(DIAMOND, epoch=9, progress=progress).scheduler
    assert scheduler.reach(["t", "other"]) == scheduler.reach([]) == 9
    assert scheduler.reach(["t", "b", "c"]) == 3
    scheduler.require("x", ["b", "c"], 3)
    scheduler.require("x", ["d"], 4)
    with pytest.raises(NoCommonEpoch, match='"d"'):
        scheduler.require("x", ["b", "d"], 3)


def test_the_epochs_at_which_a_view_must_be_readable() -> None:
    progress = ViewProgress(behind={"b": 3, "c": 5, "e": 2}, filled={"c": 3})
    scheduler = Parts(DIAMOND, epoch=9, progress=progress).scheduler
    assert scheduler.stops("b") == [2, 3]
    assert scheduler.stops("c") == [3, 5]  # it began at 3
    assert scheduler.stops("other") == [2, 3, 5, 9]


def test_views_that_are_behind_have_work_if_something_came() -> None:
    news = {"t": trace(segment(2))}
    even = Parts(DIAMOND, epoch=2)
    even.manifest = replace(even.manifest, traces=news)
    assert not even.scheduler.has_work(NOW)  # nobody is behind
    parts = Parts(DIAMOND, epoch=2, progress=ViewProgress(behind={"other": 1}))
    assert not parts.scheduler.has_work(NOW)
    for hi, has_work in ((1, False), (2, True)):
        parts.manifest = replace(parts.manifest, traces={"t": trace(segment(hi))})
        assert parts.scheduler.has_work(NOW) is has_work
    parts.pause("other")
    assert not parts.scheduler.has_work(NOW)


def test_a_view_that_failed_is_work_even_if_nothing_came() -> None:
    failed = {"other": Failure(2, "boom", NOW, NOW + 10)}
    parts = Parts(DIAMOND, epoch=2, progress=ViewProgress(behind={"other": 1}, failures=failed))
    assert not parts.scheduler.has_work(NOW)
    assert parts.scheduler.has_work(NOW + 10)


@pytest.mark.parametrize(
    ("view", "paused", "obstacle"),
    [
        ("e", "", None),  # not due, but it is asked to
        ("e", "e", Hold(Skip.PAUSED, "e")),
        ("e", "c", Hold(Skip.PAUSED, "c")),
        ("b", "e", None),
        ("b", "d", Hold(Skip.PAUSED, "d")),
    ],
)
def test_what_keeps_a_view_that_is_asked_to_step(
    view: str, paused: str, obstacle: Hold | None
) -> None:
    parts = Parts(HOURLY, progress=ViewProgress(stepped_ms={"e": NOW}))
    parts.pause(*paused.split())
    assert parts.scheduler.obstacle(view) == obstacle
    assert parts.scheduler.paused == set(paused.split())


def test_who_could_move_if_it_were_asked_to() -> None:
    parts = Parts(DIAMOND)
    parts.pause("c")
    parts.run()
    assert not parts.scheduler.can_move("other")  # it is at the newest epoch
    assert not parts.scheduler.can_move("b")  # c holds it
    parts.resume("c")
    assert parts.scheduler.can_move("b")


def test_a_view_with_all_that_it_reads() -> None:
    scheduler = Parts(DIAMOND).scheduler
    assert scheduler.with_inputs(["e"]) == {"b", "c", "d", "e"}
    assert scheduler.with_inputs(["b", "other"]) == {"b", "other"}


def test_who_is_held_now_or_would_be() -> None:
    parts = Parts(DIAMOND)
    assert parts.scheduler.held() == set()
    parts.pause("c")
    assert parts.scheduler.held() == {"b", "c", "d", "e"}
    parts.run()
    parts.resume("c")
    assert parts.scheduler.held() == {"b", "c", "d", "e"}  # they are behind


# What is counted and kept


def test_groups_count_their_commits_holds_and_retries() -> None:
    parts = Parts(DIAMOND)
    parts.run()
    parts.run(failing=["c"])
    parts.run()
    group = next(each for each in parts.scheduler.groups() if each.number)
    assert group.members == ("b", "c", "d")
    assert group.group.epoch == 2
    assert parts.scheduler.progress.commits == {"b": 2, "c": 2, "d": 2, "e": 2, "other": 3}
    assert parts.scheduler.counters["b, c, d"] == Counters(holds=1, retries=1, failures=1)
    assert parts.scheduler.counters["other"] == Counters()


def test_what_could_not_be_committed_does_not_count() -> None:
    parts = Parts(DIAMOND)
    plan = parts.scheduler.plan(parts.clock())
    with suppress(OSError), parts.scheduler.counting(plan, (), ("c",)):
        raise OSError("no space left")
    assert parts.scheduler.counters == {}


def test_groups_follow_the_definitions() -> None:
    parts = Parts(DIAMOND)
    assert parts.scheduler.groups() is parts.scheduler.groups()
    parts.catalog.remove("e")
    parts.catalog.remove("d")
    assert [each.members for each in parts.scheduler.groups()] == [("b",), ("c",), ("other",)]


def test_progress_is_true_only_if_the_commit_succeeds() -> None:
    scheduler = Parts(DIAMOND).scheduler
    before, after = scheduler.progress, ViewProgress(behind={"b": 1})
    with pytest.raises(DiskFull), scheduler.with_progress(after):
        raise DiskFull
    assert scheduler.progress is before
    with scheduler.with_progress(after):
        assert scheduler.progress is after
    assert scheduler.progress is after


def test_failures_are_remembered_beside_those_before() -> None:
    scheduler = Parts(DIAMOND).scheduler
    with scheduler.failing(scheduler.failed({"b": "boom"}, NOW)):
        pass
    with scheduler.failing(scheduler.failed({"c": "bang"}, NOW + 1)):
        pass
    assert set(scheduler.progress.failures) == {"b", "c"}
    with scheduler.failing(scheduler.failed({"b": "again"}, NOW + 1)):
        pass
    found = scheduler.progress.failures
    assert {view: (each.count, each.reason) for view, each in found.items()} == {
        "b": (2, "again"),
        "c": (1, "bang"),
    }


def test_relations_that_are_gone_are_not_saved() -> None:
    parts = Parts(DIAMOND)
    parts.pause("other")
    parts.run()
    parts.run()
    assert parts.scheduler.progress.behind == {"other": 0}
    parts.catalog.remove("other")
    assert parts.scheduler.saved(EngineState()).paused == set()
    assert parts.scheduler.known().behind == {}
    assert parts.scheduler.progress.behind == {"other": 0}  # until that is committed


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["run", "pause", "resume", "fail", "wait", "gate", "force", "reopen"]),
        st.sampled_from(VIEWS),
    ),
    max_size=14,
)


@settings(max_examples=60)
@given(ACTIONS)
def test_laws_of_any_history(actions: list[tuple[str, str]]) -> None:
    parts = Parts(HOURLY)
    reads = {view: parts.catalog.registry.get_dependencies(view) for view in VIEWS}
    for action, view in actions:
        before, epoch = cursors(parts), parts.manifest.epoch
        match action:
            case "pause":
                parts.pause(view)
            case "resume":
                parts.resume(view)
            case "wait":
                parts.clock.advance(1800)
            case "gate":
                parts.gate(*(() if parts.scheduler.progress.gated else ("t",)))
            case "fail":
                parts.run(failing=[view])
            case "force":
                parts.run(forced=parts.scheduler.with_inputs([view]))
            case "reopen":
                again = parts.reopened()
                assert again.scheduler.progress == parts.scheduler.progress
                assert again.scheduler.paused == parts.scheduler.paused
                assert again.scheduler.plan(NOW) == parts.scheduler.plan(NOW)
                parts = again
            case _:
                parts.run()
        after = cursors(parts)
        assert parts.manifest.epoch - epoch == (action in ("run", "fail", "force"))
        for each in VIEWS:
            # No view goes back, none is ahead of what it reads, a group is at one epoch.
            assert before[each] <= after[each]
            inputs = [after.get(name, parts.manifest.epoch) for name in reads[each]]
            assert after[each] <= min(inputs)
        assert len({after[each] for each in "bcd"}) == 1
        assert all(epoch <= parts.manifest.epoch for epoch in parts.scheduler.since.values())
        for each in parts.scheduler.paused:
            assert after[each] == before[each]
