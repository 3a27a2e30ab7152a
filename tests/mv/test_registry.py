from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.dag import StreamingDag
from laminar.errors import (
    DuplicateName,
    HasDependents,
    MvCycleDetected,
    SourceNotFound,
    ViewNotFound,
)
from laminar.mv import MaterializedView, MvRegistry, MvState


def mv(name: str, *sources: str) -> MaterializedView:
    return MaterializedView(name, f"SELECT * FROM {', '.join(sources)}", sources)


def registry(*tables: str, **views: Sequence[str]) -> MvRegistry:
    built = MvRegistry()
    for table in tables:
        built.register_base_table(table)
    for name, sources in views.items():
        built.register(mv(name, *sources))
    return built


def bars() -> MvRegistry:
    return registry("trades", ohlc_1s=["trades"], ohlc_1m=["ohlc_1s"], ohlc_1h=["ohlc_1m"])


def diamond() -> MvRegistry:
    return registry("a", b=["a"], c=["a"], d=["b", "c"])


class TestView:
    def test_sources_are_kept_once_in_order_whatever_the_sequence(self) -> None:
        assert MaterializedView("v", "", ["b", "a", "b"]).sources == ("b", "a")

    def test_operator_goes_by_the_name_of_the_view_unless_told(self) -> None:
        assert mv("v").operator_id == "v"
        assert MaterializedView("v", "", (), operator_id="op7").operator_id == "op7"

    def test_a_new_view_runs(self) -> None:
        assert mv("v").state is MvState.RUNNING
        assert [str(state) for state in MvState] == ["Running", "Paused", "Error"]

    def test_equal_definitions_are_equal_and_hashable(self) -> None:
        assert len({MaterializedView("v", "", ["a"]), MaterializedView("v", "", ("a",))}) == 1


class TestRegister:
    def test_a_cascade_comes_in_dependency_order(self) -> None:
        assert bars().topo_order() == ("ohlc_1s", "ohlc_1m", "ohlc_1h")

    def test_views_are_found_by_exact_name(self) -> None:
        views = registry("t", ohlc_1=["t"], ohlc_1m=["t"], by_1m=["ohlc_1m"])
        assert views.get_dependents("ohlc_1") == ()
        assert views.get_dependents("ohlc_1m") == ("by_1m",)
        assert views.drop("ohlc_1") == ("ohlc_1",)
        assert views.get_view("OHLC_1M") is None

    def test_a_view_over_nothing_is_allowed(self) -> None:
        assert registry(one=[]).dependency_map() == {"one": ()}

    @pytest.mark.parametrize("name", ["trades", "ohlc_1s"])
    def test_a_name_is_taken_once_for_tables_and_views_together(self, name: str) -> None:
        views = bars()
        with pytest.raises(DuplicateName):
            views.register(mv(name, "trades"))
        with pytest.raises(DuplicateName):
            views.register_base_table(name)

    def test_a_missing_source_is_named_with_the_nearest_known(self) -> None:
        with pytest.raises(SourceNotFound) as caught:
            bars().register(mv("daily", "ohlc_1hh"))
        assert caught.value.source == "ohlc_1hh"
        assert caught.value.suggestion == "ohlc_1h"

    def test_a_view_cannot_read_itself(self) -> None:
        with pytest.raises(MvCycleDetected) as caught:
            bars().register(mv("loop", "trades", "loop"))
        assert caught.value.path == ("loop", "loop")

    def test_reading_a_descendant_under_another_name_is_no_cycle(self) -> None:
        views = registry("base", a=["base"], b=["a"])
        views.register(mv("a_v2", "b"))
        assert views.topo_order() == ("a", "b", "a_v2")

    def test_container_speaks_of_views(self) -> None:
        views = bars()
        assert len(views) == 3
        assert "ohlc_1s" in views
        assert "trades" not in views
        assert views.is_base_table("trades")
        assert not views.is_base_table("ohlc_1s")

    def test_base_tables_keep_their_order(self) -> None:
        assert registry("z", "a", "m").base_tables() == ("z", "a", "m")


class TestReplace:
    def test_a_definition_changes_in_place(self) -> None:
        views = registry("t", "u", a=["t"], b=["a"])
        views.replace(mv("a", "u"))
        assert views.view("a").sources == ("u",)
        assert views.get_dependents("t") == ()
        assert views.get_dependents("u") == ("a",)
        assert views.get_dependents("a") == ("b",)
        assert [view.name for view in views.views()] == ["a", "b"]

    def test_order_follows_the_new_dependencies(self) -> None:
        views = registry("t", a=["t"], b=["t"], c=["t"])
        views.replace(mv("a", "c"))
        assert views.topo_order() == ("b", "c", "a")
        assert views.get_dependents("t") == ("b", "c")

    def test_dependents_are_listed_as_registered_not_as_linked(self) -> None:
        views = registry("t", "u", a=["t"], b=["u"])
        views.replace(mv("a", "u"))
        assert views.get_dependents("u") == ("a", "b")

    def test_a_cycle_is_refused_with_its_path_as_the_data_would_flow(self) -> None:
        views = registry("base", a=["base"], b=["a"], c=["b"])
        with pytest.raises(MvCycleDetected) as caught:
            views.replace(mv("a", "base", "c"))
        assert caught.value.path == ("a", "b", "c", "a")

    @pytest.mark.parametrize(
        ("view", "error"),
        [
            (mv("a", "c"), MvCycleDetected),
            (mv("a", "a"), MvCycleDetected),
            (mv("a", "nothing"), SourceNotFound),
            (mv("x", "base"), ViewNotFound),
            (mv("base"), ViewNotFound),
        ],
    )
    def test_a_refusal_changes_nothing(
        self, view: MaterializedView, error: type[Exception]
    ) -> None:
        views = registry("base", a=["base"], b=["a"], c=["b"])
        before = (views.dependency_map(), views.views(), views.version)
        with pytest.raises(error):
            views.replace(view)
        assert (views.dependency_map(), views.views(), views.version) == before
        assert views.get_dependents("base") == ("a",)


class TestDrop:
    def test_a_view_that_is_read_stays(self) -> None:
        views = bars()
        with pytest.raises(HasDependents) as caught:
            views.drop("ohlc_1s")
        assert caught.value.dependents == ("ohlc_1m", "ohlc_1h")
        assert len(views) == 3

    def test_a_cascade_takes_the_dependents_first(self) -> None:
        views = bars()
        assert views.drop("ohlc_1s", cascade=True) == ("ohlc_1h", "ohlc_1m", "ohlc_1s")
        assert views.dependency_map() == {"trades": ()}

    def test_a_cascade_through_a_diamond_takes_each_once(self) -> None:
        assert diamond().drop_base_table("a", cascade=True) == ("d", "c", "b", "a")

    def test_a_leaf_needs_no_cascade_and_its_name_is_free_again(self) -> None:
        views = bars()
        assert views.drop("ohlc_1h") == ("ohlc_1h",)
        views.register(mv("ohlc_1h", "ohlc_1s"))
        assert views.get_dependents("ohlc_1s") == ("ohlc_1m", "ohlc_1h")

    def test_a_table_that_is_read_stays(self) -> None:
        views = bars()
        with pytest.raises(HasDependents):
            views.drop_base_table("trades")
        assert views.is_base_table("trades")

    def test_an_unread_table_goes(self) -> None:
        views = registry("t", "u")
        assert views.drop_base_table("t") == ("t",)
        assert views.base_tables() == ("u",)

    def test_tables_and_views_are_dropped_each_by_their_own_verb(self) -> None:
        views = bars()
        with pytest.raises(ViewNotFound):
            views.drop("trades", cascade=True)
        with pytest.raises(ViewNotFound):
            views.drop_base_table("ohlc_1s", cascade=True)


class TestQuestions:
    def test_direct_and_transitive_neighbours(self) -> None:
        views = diamond()
        assert views.get_dependents("a") == ("b", "c")
        assert views.get_dependencies("d") == ("b", "c")
        assert views.get_dependencies("a") == ()
        assert views.all_dependents("a") == ("b", "c", "d")
        assert views.all_dependencies("d") == ("a", "b", "c")

    def test_dependencies_reach_down_to_the_tables(self) -> None:
        assert bars().all_dependencies("ohlc_1h") == ("trades", "ohlc_1s", "ohlc_1m")

    def test_dependency_map_has_tables_first_then_views_in_order(self) -> None:
        views = diamond()
        views.register_base_table("late")
        assert list(views.dependency_map().items()) == [
            ("a", ()),
            ("late", ()),
            ("b", ("a",)),
            ("c", ("a",)),
            ("d", ("b", "c")),
        ]

    @pytest.mark.parametrize(
        "ask",
        [
            MvRegistry.view,
            MvRegistry.drop,
            MvRegistry.get_dependents,
            MvRegistry.get_dependencies,
            MvRegistry.all_dependents,
            MvRegistry.all_dependencies,
        ],
    )
    def test_an_unknown_name_is_an_error_with_the_nearest(
        self, ask: Callable[[MvRegistry, str], object]
    ) -> None:
        with pytest.raises(ViewNotFound) as caught:
            ask(bars(), "ohlc_1mm")
        assert caught.value.suggestion == "ohlc_1m"

    def test_state_changes_without_a_new_version(self) -> None:
        views = bars()
        before = views.version
        views.set_state("ohlc_1m", MvState.PAUSED)
        assert views.view("ohlc_1m").state is MvState.PAUSED
        assert views.view("ohlc_1s").state is MvState.RUNNING
        assert views.version == before
        with pytest.raises(ViewNotFound):
            views.set_state("trades", MvState.PAUSED)

    def test_every_change_of_the_graph_is_a_new_version(self) -> None:
        views = MvRegistry()
        changes: list[Callable[[], object]] = [
            lambda: views.register_base_table("t"),
            lambda: views.register(mv("a", "t")),
            lambda: views.replace(mv("a")),
            lambda: views.drop("a"),
            lambda: views.drop_base_table("t"),
        ]
        versions = [views.version]
        for change in changes:
            change()
            versions.append(views.version)
        assert versions == sorted(set(versions))

    def test_the_order_is_computed_once_per_change(self) -> None:
        views = bars()
        assert views.topo_order() is views.topo_order()

    def test_a_registry_becomes_a_dag_in_its_own_order(self) -> None:
        dag = StreamingDag.from_mv_registry(bars())
        assert [dag.nodes[node].name for node in dag.execution_order()] == [
            "trades",
            "ohlc_1s",
            "ohlc_1m",
            "ohlc_1h",
        ]


@st.composite
def registries(draw: st.DrawFn) -> MvRegistry:
    """Two tables and a few views, some of them redefined once everything is there."""
    built = registry("t0", "t1")
    names = ["t0", "t1"]
    for number in range(draw(st.integers(0, 8))):
        name = f"v{number}"
        built.register(mv(name, *draw(st.lists(st.sampled_from(names), max_size=3))))
        names.append(name)
    for name in draw(st.lists(st.sampled_from(names[2:]), max_size=3)) if len(names) > 2 else []:
        with suppress(MvCycleDetected):
            built.replace(mv(name, *draw(st.lists(st.sampled_from(names), max_size=3))))
    return built


def _below(views: MvRegistry, name: str) -> set[str]:
    direct = {view.name for view in views.views() if name in view.sources}
    return direct.union(*(_below(views, each) for each in direct))


@given(registries())
def test_order_respects_every_dependency(views: MvRegistry) -> None:
    order = views.topo_order()
    assert sorted(order) == sorted(view.name for view in views.views())
    for view in views.views():
        for source in view.sources:
            assert source in ("t0", "t1") or order.index(source) < order.index(view.name)


@given(registries())
def test_order_follows_registration_wherever_it_may(views: MvRegistry) -> None:
    registered = [view.name for view in views.views()]
    left, order = list(registered), list(views.topo_order())
    while order:
        free = next(n for n in left if not set(views.view(n).sources) & set(left))
        assert order.pop(0) == free
        left.remove(free)


@given(registries(), st.data())
def test_cascade_drops_exactly_the_transitive_dependents(
    views: MvRegistry, data: st.DataObject
) -> None:
    table = data.draw(st.sampled_from(["t0", "t1"]))
    below = _below(views, table)
    assert set(views.all_dependents(table)) == below
    survivors = {view for view in views.views() if view.name not in below}
    order = views.topo_order()
    dropped = views.drop_base_table(table, cascade=True)
    assert dropped == (*[name for name in reversed(order) if name in below], table)
    assert set(views.views()) == survivors
    assert all(views.view(name) for name in views.topo_order())


@given(registries(), st.data())
def test_a_new_input_is_refused_iff_it_depends_on_the_view(
    views: MvRegistry, data: st.DataObject
) -> None:
    names = [*views.base_tables(), *views.topo_order()]
    for name in views.topo_order():
        source = data.draw(st.sampled_from(names))
        view = mv(name, *views.view(name).sources, source)
        if source != name and source not in views.all_dependents(name):
            views.replace(view)
            continue
        with pytest.raises(MvCycleDetected) as caught:
            views.replace(view)
        path = caught.value.path
        assert (path[0], *path[-2:]) == (name, source, name)
        for each, reader in pairwise(path[:-1]):
            assert reader in views.get_dependents(each)


@given(registries())
def test_neighbours_agree_in_both_directions(views: MvRegistry) -> None:
    names = [*views.base_tables(), *views.topo_order()]
    for name in names:
        for other in names:
            assert (other in views.get_dependents(name)) == (name in views.get_dependencies(other))
            assert (other in views.all_dependents(name)) == (name in views.all_dependencies(other))
