from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.dag import DagBuilder, StreamingDag
from laminar.dag.diamond import (
    ConsistencyGroup,
    Diamond,
    DiamondSchedulePolicy,
    compute_consistency_groups,
    detect_diamonds,
    is_group_due,
)
from laminar.dag.scc import strongly_connected
from laminar.model.ids import NodeId
from laminar.mv import MaterializedView, MvRegistry

SIMPLE = "b: a; c: a; d: b c"


def dag_of(text: str) -> StreamingDag:
    """Read `view: inputs; ...`; names that nobody defines are sources, `out...` are sinks."""
    reads = {
        name: inputs.split() for name, inputs in (each.split(":") for each in text.split("; "))
    }
    builder = DagBuilder()
    for name in dict.fromkeys(each for inputs in reads.values() for each in inputs):
        if name not in reads:
            builder.source(name)
    for name, inputs in reads.items():
        builder = builder.sink(name) if name.startswith("out") else builder.operator(name)
        for each in inputs:
            builder.connect(each, name)
    return builder.build()


def names(dag: StreamingDag, nodes: Iterable[NodeId]) -> str:
    return " ".join(dag.nodes[node].name for node in nodes)


def diamonds(text: str) -> list[tuple[str, str, str]]:
    """Return convergence points, shared sources and intermediates, by name."""
    dag = dag_of(text)
    return [
        (
            names(dag, found.convergence_points),
            names(dag, found.shared_sources),
            names(dag, found.intermediates),
        )
        for found in detect_diamonds(dag)
    ]


def groups(text: str) -> list[str]:
    dag = dag_of(text)
    return [names(dag, group.members) for group in compute_consistency_groups(dag)]


DIAMONDS = {
    "simple": (SIMPLE, [("d", "a", "b c")]),
    "deep": ("b: a; c: a; e: b; d: e c", [("d", "a", "b c e")]),
    "none in a line": ("b: a; c: b", []),
    "none in a fan-out": ("b: a; c: a", []),
    "none with a root for each input": ("b: a1; c: a2; d: b c", []),
    "source beside a view over it": ("b: a; d: a b", [("d", "a", "b")]),
    "view beside a view over it": ("v: a; b: v; d: v b", [("d", "v", "b")]),
    "two points over the same inputs": ("b: a; c: a; d: b c; e: b c", [("d e", "a", "b c")]),
    "two points with one input in common": (
        "b: a; c: a; x: a; d: b c; e: c x",
        [("d e", "a", "b c x")],
    ),
    "joined by a third that arrives last": (
        "b: a; c: a; x: a; y: a; d: b c; e: x y; f: c x",
        [("d e f", "a", "b c x y")],
    ),
    "apart over the same source": (
        "b: a; c: a; x: a; y: a; d: b c; e: x y",
        [("d", "a", "b c"), ("e", "a", "x y")],
    ),
    "overlapping with another one between": (
        "b: a; c: a; x: a; y: a; d: b c; e: x y; f: b c",
        [("d f", "a", "b c"), ("e", "a", "x y")],
    ),
    "nested": ("b: a; c: a; d: b c; x: a; g: d x", [("d g", "a", "b c d x")]),
    "chained": ("b: a; c: a; d: b c; e: d; f: d; g: e f", [("d", "a", "b c"), ("g", "d", "e f")]),
    "unrelated third input": ("b: a; c: a; x: other; d: b c x", [("d", "a", "b c")]),
    "several shared sources": ("b: a1 a2; c: a1 a2; d: b c", [("d", "a1 a2", "b c")]),
    "trunk before the paths part": ("t: a; u: t; b: u; c: u; d: b c", [("d", "u", "b c")]),
    "paths part inside one input": (
        "n: a s; i1: n; i2: n; d: i1 i2 a",
        [("d", "a s", "n i1 i2")],
    ),
    "sinks do not converge": ("b: a; c: a; out: b c", []),
}


@pytest.mark.parametrize(("text", "expected"), DIAMONDS.values(), ids=DIAMONDS.keys())
def test_diamonds(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert diamonds(text) == expected


GROUPS = {
    "simple": (SIMPLE, ["b c d"]),
    "a line is singletons": ("b: a; c: b; d: c", ["b", "c", "d"]),
    "source beside a view over it": ("b: a; d: a b", ["b d"]),
    "nested": ("b: a; c: a; d: b c; x: a; g: d x", ["b c d x g"]),
    "overlapping": ("b: a; c: a; x: a; d: b c; e: c x", ["b c x d e"]),
    "independent": (
        "b1: a1; c1: a1; d1: b1 c1; b2: a2; c2: a2; d2: b2 c2",
        ["b1 c1 d1", "b2 c2 d2"],
    ),
    "chained at a convergence point": ("b: a; c: a; d: b c; e: d; f: d; g: e f", ["b c d e f g"]),
    "chained at an intermediate": (
        "b: a; c: a; d: b c; e: b; f: b; g: e f",
        ["b c d e f g"],
    ),
    "before, beside and behind": (
        "t: a; b: t; c: t; d: b c; after: d; aside: a; out: after aside",
        ["t", "b c d", "after", "aside"],
    ),
    "one behind the other with a view between": (
        "b: a; c: a; d: b c; v: d; e: v; f: v; g: e f",
        ["b c d", "v", "e f g"],
    ),
    # Neither diamond has v as an intermediate: no other input of d comes from r1.
    "a view between two members": (
        "x: r1; y: r1; p: r2; q: r2; e: x y p q; v: x; d: v p q",
        ["x y p q e v d"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), GROUPS.values(), ids=GROUPS.keys())
def test_groups(text: str, expected: list[str]) -> None:
    assert groups(text) == expected


def test_the_view_between_two_members_is_no_intermediate() -> None:
    text, _ = GROUPS["a view between two members"]
    assert diamonds(text) == [("e d", "r1 r2", "x y p q")]


def test_a_group_names_every_convergence_point() -> None:
    dag = dag_of("b: a; c: a; d: b c; e: b c; f: e")
    assert [names(dag, group.convergence_points) for group in compute_consistency_groups(dag)] == [
        "d e",
        "",
    ]


def test_convergence_is_the_first_point() -> None:
    assert Diamond((NodeId(4), NodeId(7)), (), (NodeId(2),)).convergence == 4


def test_epoch_counts_commits() -> None:
    group = ConsistencyGroup((NodeId(1), NodeId(2)), (NodeId(2),))
    assert group.epoch == 0
    assert [group.advance_epoch(), group.advance_epoch()] == [1, 2]
    assert group.epoch == 2


@pytest.mark.parametrize(("members", "single"), [((1,), True), ((1, 2), False)])
def test_a_singleton_has_one_member(members: tuple[int, ...], single: bool) -> None:
    group = ConsistencyGroup(tuple(NodeId(each) for each in members), ())
    assert group.is_singleton() is single


def test_a_self_join_is_no_diamond() -> None:
    dag = DagBuilder().source("a").operator("b").operator("d").connect("a", "b")
    built = dag.connect("b", "d", target_port=0).connect("b", "d", target_port=1).build()
    assert detect_diamonds(built) == []
    assert len(compute_consistency_groups(built)) == 2


def test_registered_views_form_the_same_groups() -> None:
    dag = registered([[0], [0], [1, 2]], tables=1)
    assert [names(dag, group.members) for group in compute_consistency_groups(dag)] == ["1 2 3"]


def test_the_dag_keeps_its_groups() -> None:
    dag = dag_of(SIMPLE)
    dag.consistency_groups()[0].advance_epoch()
    assert dag.consistency_groups()[0].epoch == 1


def test_a_chain_may_be_longer_than_the_stack_of_python() -> None:
    dag = registered([[each] for each in range(3000)], tables=1)
    assert len(compute_consistency_groups(dag)) == 3000


@pytest.mark.parametrize(
    ("edges", "components"),
    [
        ({}, []),
        ({1: [2], 2: []}, [(2,), (1,)]),
        ({1: [2], 2: [3], 3: [1]}, [(1, 2, 3)]),
        ({1: [1]}, [(1,)]),
        ({1: [2], 2: [1, 3], 3: [4], 4: [3]}, [(3, 4), (1, 2)]),
        # 3 has an edge into a finished component: no way back to it.
        ({1: [2], 2: [], 3: [2, 1]}, [(2,), (1,), (3,)]),
    ],
)
def test_components(edges: dict[int, list[int]], components: list[tuple[int, ...]]) -> None:
    assert strongly_connected(edges) == components


# Against the definitions, taken literally


def registered(reads: list[list[int]], *, tables: int) -> StreamingDag:
    """Build the DAG of numbered tables and views; view n reads `reads[n - tables]`."""
    views = MvRegistry()
    for number in range(tables):
        views.register_base_table(str(number))
    for number, inputs in enumerate(reads, start=tables):
        views.register(MaterializedView(str(number), "", [str(each) for each in inputs]))
    return StreamingDag.from_mv_registry(views, max_fan_out=100)


@st.composite
def small_dags(draw: st.DrawFn) -> StreamingDag:
    tables = draw(st.integers(0, 3))
    reads: list[list[int]] = []
    for number in range(tables, tables + draw(st.integers(1, 9))):
        earlier = st.lists(st.integers(0, number - 1), max_size=3, unique=True)
        reads.append(draw(earlier if number else st.just([])))
    return registered(reads, tables=tables)


Shape = tuple[frozenset[str], frozenset[str], frozenset[str]]
"""Convergence points, shared sources, intermediates."""


class Literal:
    """The laws of `laminar.dag.diamond`, by enumeration."""

    def __init__(self, dag: StreamingDag) -> None:
        self.reads: Mapping[str, tuple[str, ...]] = dag.dependency_map()
        self.members = [
            node.name for node in dag.nodes.values() if node.node_type not in ("Source", "Sink")
        ]

    def ancestors(self, name: str) -> set[str]:
        inputs = set(self.reads[name])
        return inputs.union(*(self.ancestors(each) for each in inputs))

    def diamond(self, at: str) -> Shape | None:
        branches = [{each} | self.ancestors(each) for each in self.reads[at]]
        lying = set[str]().union(*branches)
        between = {
            n for n in lying for m in branches if n not in m and not m.isdisjoint(self.ancestors(n))
        }
        parting = set(self.reads[at]).union(*(self.reads[n] for n in between))
        shared = {n for n in lying - between if sum(n in m for m in branches) > 1 and n in parting}
        return (frozenset({at}), frozenset(shared), frozenset(between)) if between else None

    def raw(self) -> list[Shape]:
        return [found for found in map(self.diamond, self.members) if found]

    def diamonds(self) -> set[Shape]:
        found = set(self.raw())
        while pair := next((p for p in combinations(found, 2) if p[0][2] & p[1][2]), None):
            (at, shared, between), (at2, shared2, between2) = pair
            both = between | between2
            found -= set(pair)
            found.add((at | at2, (shared | shared2) - both, both))
        return found

    def groups(self) -> set[frozenset[str]]:
        parts = {frozenset({name}) for name in self.members}
        bodies = [(at | between, shared) for at, shared, between in self.raw()]
        for body, shared in bodies:
            parts = joined(parts, body)
            for other, _ in bodies:
                if shared & other:
                    parts = joined(parts, body | (shared & other))
        while cycle := self.cycle(parts):
            parts = joined(parts, cycle)
        return parts

    def cycle(self, parts: set[frozenset[str]]) -> frozenset[str] | None:
        """Return two parts that each need the other to run first."""
        before = {part: self.parts_before(part, parts) for part in parts}
        pairs = ((p, q) for p, q in combinations(parts, 2) if p in before[q] and q in before[p])
        return next((p | q for p, q in pairs), None)

    def parts_before(self, part: frozenset[str], parts: set[frozenset[str]]) -> set[frozenset[str]]:
        reached: set[frozenset[str]] = set()
        todo = [part]
        while todo:
            inputs = {each for name in todo.pop() for each in self.reads[name]}
            new = {other for other in parts if other & inputs} - reached
            reached |= new
            todo += new
        return reached


def joined(parts: set[frozenset[str]], together: frozenset[str]) -> set[frozenset[str]]:
    touched = {part for part in parts if part & together}
    return (parts - touched) | {frozenset[str]().union(*touched)}


def name_set(dag: StreamingDag, nodes: Iterable[NodeId]) -> frozenset[str]:
    return frozenset(dag.nodes[node].name for node in nodes)


@given(small_dags())
@settings(max_examples=500)
def test_diamonds_agree_with_the_definition(dag: StreamingDag) -> None:
    found = {
        (
            name_set(dag, each.convergence_points),
            name_set(dag, each.shared_sources),
            name_set(dag, each.intermediates),
        )
        for each in detect_diamonds(dag)
    }
    assert found == Literal(dag).diamonds()


@given(small_dags())
@settings(max_examples=500)
def test_groups_agree_with_the_definition(dag: StreamingDag) -> None:
    found = compute_consistency_groups(dag)
    assert {name_set(dag, group.members) for group in found} == Literal(dag).groups()


@given(small_dags())
def test_groups_partition_the_members_and_can_run_in_order(dag: StreamingDag) -> None:
    found = compute_consistency_groups(dag)
    position = {node: at for at, node in enumerate(dag.execution_order())}
    home = {node: at for at, group in enumerate(found) for node in group.members}
    assert sum(len(group.members) for group in found) == len(home)
    assert sorted(home) == [n for n in dag.nodes if dag.nodes[n].node_type != "Source"]
    for group in found:
        assert list(group.members) == sorted(group.members, key=position.__getitem__)
        assert set(group.convergence_points) <= set(group.members)
    for node, at in home.items():
        assert all(home[source] <= at for source in dag.upstream(node) if source in home)


@given(small_dags())
def test_every_group_of_several_has_a_convergence_point(dag: StreamingDag) -> None:
    points = {point for found in detect_diamonds(dag) for point in found.convergence_points}
    for group in compute_consistency_groups(dag):
        assert bool(group.convergence_points) != group.is_singleton()
        assert set(group.convergence_points) == points & set(group.members)


OPTED_OUT = {
    "a convergence point ties nobody": (SIMPLE, "d", ["b", "c", "d"]),
    "an intermediate leaves with what depends on it": (SIMPLE, "c", ["b", "c", "d"]),
    "the others of a wide diamond stay together": (
        "b1: a; b2: a; c: a; d: b1 b2 c",
        "c",
        ["b1 b2", "c", "d"],
    ),
    "the stricter of two convergence points counts": (
        "b: a; c: a; d: b c; e: b c",
        "d",
        ["b c e", "d"],
    ),
    "nobody is left": (SIMPLE, "b c d", ["b", "c", "d"]),
    "another diamond does not care": (
        "b1: a1; c1: a1; d1: b1 c1; b2: a2; c2: a2; d2: b2 c2",
        "c1",
        ["b1", "c1", "d1", "b2 c2 d2"],
    ),
    "a diamond behind it stays whole": (
        "b: a; c: a; d: b c; e: d; f: d; g: e f",
        "d",
        ["b", "c", "d", "e f g"],
    ),
}


@pytest.mark.parametrize(("text", "out", "expected"), OPTED_OUT.values(), ids=OPTED_OUT.keys())
def test_opting_out(text: str, out: str, expected: list[str]) -> None:
    dag = dag_of(text)
    opted = {node.id for node in dag.nodes.values() if node.name in out.split()}
    found = compute_consistency_groups(dag, opted)
    assert sorted(names(dag, group.members) for group in found) == sorted(expected)


def test_some_are_together_whatever_they_want() -> None:
    dag = dag_of("v: a; l: a v; r: v; z: r")
    node = {each.name: each.id for each in dag.nodes.values()}
    for opted in ([], [node["v"]], [node["v"], node["l"]]):
        found = compute_consistency_groups(dag, opted, [(node["v"], node["l"])])
        assert [names(dag, group.members) for group in found] == ["v l", "r", "z"]
    apart = compute_consistency_groups(dag, [node["v"]])
    assert sorted(names(dag, group.members) for group in apart) == ["l", "r", "v", "z"]


def test_a_group_is_due_by_its_policy() -> None:
    fastest, slowest = DiamondSchedulePolicy.FASTEST, DiamondSchedulePolicy.SLOWEST
    assert is_group_due(fastest, [False, True])
    assert not is_group_due(fastest, [False, False])
    assert is_group_due(slowest, [True, True])
    assert not is_group_due(slowest, [False, True])
    for policy in (fastest, slowest):
        assert [is_group_due(policy, [due]) for due in (True, False)] == [True, False]
