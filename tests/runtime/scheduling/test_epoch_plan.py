"""Which views an epoch moves, and through which stops."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.dag import StreamingDag
from laminar.dag.diamond import compute_consistency_groups
from laminar.mv import MaterializedView, MvRegistry
from laminar.runtime.scheduling.epoch_plan import EpochPlan, Hold, Move, Skip, plan_steps

DIAMOND = {"b": ("t",), "c": ("t",), "d": ("b", "c"), "other": ("t",)}
GROUPS = [("b", "c", "d"), ("other",)]
PAUSED = Hold(Skip.PAUSED, "c")


def plan(
    cursors: Mapping[str, int], skipped: Mapping[str, Hold] | None = None, epoch: int = 9
) -> EpochPlan:
    return plan_steps(GROUPS, DIAMOND, cursors, skipped or {}, epoch)


def test_in_lockstep_an_epoch_is_one_pass() -> None:
    found = plan(dict.fromkeys(DIAMOND, 8))
    assert found.moves == (Move(8, 9, frozenset(DIAMOND)),)
    assert not found.held


def test_a_skipped_member_holds_its_group_and_nobody_else() -> None:
    found = plan(dict.fromkeys(DIAMOND, 8), {"c": PAUSED})
    assert found.moves == (Move(8, 9, frozenset({"other"})),)
    assert set(found.held) == {"b", "c", "d"}
    assert found.held["c"].told("c") == "paused"
    assert found.held["b"].told("b") == "waits for c (paused)"


def test_a_group_catches_up_in_one_pass() -> None:
    found = plan({"b": 3, "c": 3, "d": 3, "other": 8})
    assert found.moves == (Move(8, 9, frozenset({"other"})), Move(3, 9, frozenset("bcd")))


def test_members_that_are_further_ahead_go_first() -> None:
    found = plan({"b": 5, "c": 8, "d": 3, "other": 8})
    assert found.moves == (
        Move(8, 9, frozenset({"c", "other"})),
        Move(5, 9, frozenset("b")),
        Move(3, 9, frozenset("d")),
    )


def test_a_step_stops_at_cursors_that_stay_behind() -> None:
    cursors = {"b": 3, "c": 3, "d": 3, "other": 6}
    found = plan(cursors, {"other": Hold(Skip.NOT_DUE, "other")})
    assert found.moves == (Move(3, 6, frozenset("bcd")), Move(6, 9, frozenset("bcd")))


def test_a_view_goes_no_further_than_what_it_reads() -> None:
    reads = {"x": ("t",), "y": ("u",), "both": ("x", "y")}
    groups = [("x",), ("y",), ("both",)]
    cursors = {"x": 4, "y": 7, "both": 4}
    found = plan_steps(groups, reads, cursors, {"y": Hold(Skip.NOT_DUE, "y")}, 9)
    assert found.after == {"x": 9, "y": 7, "both": 7}
    assert found.moves == (Move(4, 7, frozenset({"x", "both"})), Move(7, 9, frozenset("x")))
    assert found.held["both"].told("both") == "waits for y (not due)"


def test_what_fails_takes_its_group_and_its_readers_along() -> None:
    found = plan(dict.fromkeys(DIAMOND, 8))
    readers = {"t": ("b", "c", "other"), "b": ("d",), "c": ("d",)}
    assert found.falls_with({"c"}, readers) == {"b", "c", "d"}
    assert found.falls_with({"other"}, readers) == {"other"}


def test_a_cursor_that_stays_after_all_must_not_be_passed_over() -> None:
    found = plan({"b": 3, "c": 3, "d": 3, "other": 8})
    assert found.passed_over({"other"})  # b, c and d went from 3 to 9 without a stop at 8
    assert not found.passed_over({"b", "c", "d"})
    assert not found.passed_over({"b", "c", "d", "other"})  # whoever passed it stays, too
    stops = plan({"b": 3, "c": 3, "d": 3, "other": 6}, {"other": Hold(Skip.NOT_DUE, "other")})
    assert not stops.passed_over({"other"})  # they stop at 6


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, tuple[str, ...]], dict[str, int], set[str]]:
    """A random DAG of views in groups of one, at cursors that obey the law."""
    reads: dict[str, tuple[str, ...]] = {}
    cursors: dict[str, int] = {}
    for number in range(draw(st.integers(1, 6))):
        known = ["t", *reads]
        chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        view = f"v{number}"
        reads[view] = tuple(chosen)
        most = min(cursors.get(each, 8) for each in chosen)
        cursors[view] = draw(st.integers(0, most))
    skipped = draw(st.sets(st.sampled_from(sorted(reads))))
    return reads, cursors, skipped


@given(situations())
def test_the_laws(situation: tuple[dict[str, tuple[str, ...]], dict[str, int], set[str]]) -> None:
    reads, cursors, skipped = situation
    groups = [(view,) for view in reads]
    holds = {view: Hold(Skip.PAUSED, view) for view in skipped}
    found = plan_steps(groups, reads, cursors, holds, 9)
    at = dict(cursors)
    for each in found.moves:
        for view in each.views:
            assert at[view] == each.start
            for source in reads[view]:
                # Its inputs are there already, or come along in the same move.
                together = source in each.views
                assert source not in at or together or at[source] >= each.stop
        at |= dict.fromkeys(each.views, each.stop)
        for cursor in found.after.values():
            assert not each.start < cursor < each.stop
    assert at == found.after
    for view, sources in reads.items():
        assert found.after[view] <= min(found.after.get(each, 9) for each in sources)
        assert (view in found.held) == (found.after[view] < 9)
    assert all(found.after[view] == cursors[view] for view in skipped)


@st.composite
def topologies(draw: st.DrawFn) -> tuple[dict[str, tuple[str, ...]], list[tuple[str, ...]]]:
    """A random DAG of views with the groups that its diamonds make."""
    registry = MvRegistry()
    registry.register_base_table("t")
    registry.register_base_table("u")
    known = ["t", "u"]
    for number in range(draw(st.integers(1, 7))):
        chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True))
        registry.register(MaterializedView(f"v{number}", "", tuple(chosen)))
        known.append(f"v{number}")
    dag = StreamingDag.from_mv_registry(registry)
    name = {node.id: node.name for node in dag.nodes.values()}
    groups = [
        tuple(name[each] for each in group.members) for group in compute_consistency_groups(dag)
    ]
    reads = {view: registry.get_dependencies(view) for view in registry.topo_order()}
    return reads, groups


@settings(max_examples=60)
@given(topologies(), st.data())
def test_laws_of_groups_hold_from_epoch_to_epoch(
    topology: tuple[dict[str, tuple[str, ...]], list[tuple[str, ...]]], data: st.DataObject
) -> None:
    reads, groups = topology
    cursors = dict.fromkeys(reads, 0)
    mates = {view: set(group) for group in groups for view in group}
    readers = {
        name: [view for view, sources in reads.items() if name in sources]
        for name in ("t", "u", *reads)
    }
    for epoch in range(1, 6):
        skipped = data.draw(st.sets(st.sampled_from(sorted(reads)), max_size=2))
        holds = {view: Hold(Skip.PAUSED, view) for view in skipped}
        found = plan_steps(groups, reads, cursors, holds, epoch)
        assert found.before == cursors
        for view in reads:
            # A held member holds its group, and nobody who has nothing to do with it.
            assert found.after[view] >= cursors[view]
            if mates[view] & skipped:
                assert found.after[view] == cursors[view]
            assert (view in found.held) == (found.after[view] < epoch)
            if view in found.held:
                because = found.held[view].because
                assert because in skipped
                assert view in found.falls_with([because], readers)
            # A cursor is never ahead of its inputs.
            assert found.after[view] <= min(found.after.get(each, epoch) for each in reads[view])
        # Whatever stays behind, those that go past it stop there.
        for each in found.moves:
            assert not any(each.start < cursor < each.stop for cursor in found.after.values())
        failed = data.draw(st.sets(st.sampled_from(sorted(reads)), max_size=1)) & found.stepping()
        fallen = found.falls_with(failed, readers)
        assert failed <= fallen
        for view in fallen:
            assert mates[view] <= fallen
            assert set(readers[view]) <= fallen
        if not found.passed_over(fallen):
            cursors = {v: found.before[v] if v in fallen else found.after[v] for v in reads}
        else:
            again = holds | {view: Hold(Skip.FAILED, view) for view in failed}
            cursors = dict(plan_steps(groups, reads, cursors, again, epoch).after)


def test_reasons_in_words() -> None:
    suspended = Hold(Skip.SUSPENDED, "a", "failed 5 times")
    assert suspended.told("a") == "suspended: failed 5 times"
    assert suspended.told("b") == "waits for a (suspended: failed 5 times)"
    assert Hold(Skip.GATED, "t").told("a") == "waits for t (source gated)"
