"""The rules as text: which terms a delta has, and which are left out. No Spark."""

from __future__ import annotations

from laminar.delta.anti import delta_anti
from laminar.delta.change import Change, State, bag, consolidate, quote, table
from laminar.delta.join import delta_join, join_order
from laminar.delta.linear import (
    delta_constant,
    delta_filter,
    delta_generate,
    delta_project,
    delta_reweigh,
    delta_union_all,
)
from laminar.delta.render import change
from laminar.model.same_row import RowType
from laminar.plan.nodes import (
    Anti,
    Constant,
    Filter,
    Generate,
    Join,
    Predicate,
    Project,
    Reweigh,
    Scan,
    UnionAll,
)

A = Scan("a", (("k", "c1"), ("x", "c2")))
B = Scan("b", (("k", "c3"),))
C = Scan("c", (("k", "c4"),))
AB = Join((A, B), (Predicate("c1 = c3", frozenset(("c1", "c3")), is_equality=True),))


def given(name: str, *, changed: bool = True, existed: bool = True, inserts: bool = True) -> Change:
    return Change(
        f"{name}0" if existed else None,
        f"{name}1" if existed or changed else None,
        f"d{name}" if changed else None,
        insert_only=inserts,
        positive=inserts,
    )


def squeezed(sql: str | None) -> str:
    return " ".join((sql or "").split())


def test_a_join_has_a_term_per_input() -> None:
    found = delta_join(AB, [given("a"), given("b")])
    assert squeezed(found.delta) == (
        "SELECT c1, c2, c3, j0.__weight * j1.__weight AS __weight "
        "FROM (da) j0 JOIN (b0) j1 ON (c1 = c3) UNION ALL "
        "SELECT c1, c2, c3, j0.__weight * j1.__weight AS __weight "
        "FROM (db) j1 JOIN (a1) j0 ON (c1 = c3)"
    )


def test_a_term_whose_delta_or_partner_is_empty_is_left_out() -> None:
    assert "UNION" not in squeezed(delta_join(AB, [given("a"), given("b", changed=False)]).delta)
    only_new = delta_join(AB, [given("a", existed=False), given("b", existed=False)])
    assert squeezed(only_new.delta).endswith("FROM (db) j1 JOIN (a1) j0 ON (c1 = c3)")
    assert only_new.before is None
    nothing = delta_join(AB, [given("a"), given("b", changed=False, existed=False)])
    assert nothing.delta is None


def test_a_join_of_inserts_only_inserts_unless_a_side_has_retractions() -> None:
    assert delta_join(AB, [given("a"), given("b")]).insert_only
    assert not delta_join(AB, [given("a", inserts=False), given("b")]).insert_only
    assert not delta_join(AB, [given("a"), given("b", changed=False, inserts=False)]).insert_only


def test_term_i_takes_new_states_left_of_it_and_old_ones_right_of_it() -> None:
    node = Join((A, B, C), ())
    terms = squeezed(delta_join(node, [given("a"), given("b"), given("c")]).delta).split(
        " UNION ALL "
    )
    for term, sides in zip(
        terms, (("da", "b0", "c0"), ("a1", "db", "c0"), ("a1", "b1", "dc")), strict=True
    ):
        assert all(f"({side})" in term for side in sides)


def test_a_join_follows_the_equalities_from_where_it_starts() -> None:
    chain = Join(
        (A, B, C),
        (
            Predicate("c1 = c3", frozenset(("c1", "c3")), is_equality=True),
            Predicate("c3 = c4", frozenset(("c3", "c4")), is_equality=True),
        ),
    )
    assert [join_order(chain, start) for start in range(3)] == [[0, 1, 2], [1, 0, 2], [2, 1, 0]]


def test_an_anti_join_takes_away_what_finds_a_new_key() -> None:
    node = Anti(A, B, ("c1",), ("c3",), ("=",))
    found = squeezed(delta_anti(node, given("a"), given("b")).delta)
    left, right = found.split(" UNION ALL ")
    assert "FROM (da) l LEFT ANTI JOIN" in left
    assert "(b1)" in left
    assert right == (
        "SELECT l.c1, l.c2, -(l.__weight * d.__weight) AS __weight "
        "FROM (a0) l JOIN (db) d ON l.c1 = d.c3"
    )


def test_an_anti_join_against_nothing_is_its_left_side() -> None:
    node = Anti(A, B, ("c1",), ("c3",), ("=",))
    found = delta_anti(node, given("a"), given("b", changed=False, existed=False))
    assert (found.before, found.after, found.delta) == ("a0", "a1", "da")
    assert found.insert_only


def test_linear_rules_go_through_every_face() -> None:
    one = given("a")
    assert delta_filter(Filter(A, "c1 > 1"), one).delta == "SELECT * FROM (da) AS __r WHERE c1 > 1"
    assert delta_project(Project(A, (("c1", "c1"), ("c2 + 1", "c9"))), one).before == (
        "SELECT c1, c2 + 1 AS c9, __weight FROM (a0)"
    )
    assert delta_reweigh(Reweigh(A, "c2"), one).after == (
        "SELECT c1, c2, __weight * (c2) AS __weight FROM (a1) WHERE (c2) <> 0"
    )
    made = delta_generate(Generate(A, "EXPLODE(c2)", ("c9",), outer=True), one).delta
    assert made == "SELECT c1, c2, c9, __weight FROM (da) LATERAL VIEW OUTER EXPLODE(c2) made AS c9"


def test_a_union_adds_up_what_is_there() -> None:
    node = UnionAll((B, C), ("c5",), ("bigint",))
    found = delta_union_all(node, [given("b", changed=False), given("c", existed=False)])
    assert found.before == "SELECT CAST(c3 AS bigint) AS c5, __weight FROM (b0)"
    assert found.delta == "SELECT CAST(c4 AS bigint) AS c5, __weight FROM (dc)"
    assert (
        delta_union_all(node, [given("b", changed=False), given("c", changed=False)]).delta is None
    )


def test_written_rows_come_once() -> None:
    node = Constant("SELECT 1 AS c1", ("c1",))
    first, later = delta_constant(node, first=True), delta_constant(node, first=False)
    assert (first.before, first.delta) == (None, first.after)
    assert (later.before, later.delta) == (later.after, None)


def test_a_scan_knows_what_its_relation_is() -> None:
    grown = change(A, {"a": State(insert_only=True, positive=True)})
    assert grown.insert_only
    assert grown.positive
    shrunk = change(A, {"a": State(positive=True)})
    assert not shrunk.positive
    fresh = change(A, {"a": State(existed=False)})
    assert fresh.before is None
    assert fresh.delta == "SELECT `k` AS c1, `x` AS c2, __weight FROM a__delta"
    still = change(A, {"a": State(changed=False)})
    assert still.delta is None


def test_equal_rows_are_added_up_and_a_weight_is_so_many_rows() -> None:
    assert consolidate("q", RowType(("c1",), ("int",))) == (
        "SELECT c1, SUM(__weight) AS __weight FROM (q) GROUP BY c1 HAVING SUM(__weight) <> 0"
    )
    assert "GROUP BY" not in bag("q", RowType(("c1",), ("int",)), positive=True)
    assert "GROUP BY" in bag("q", RowType(("c1",), ("int",)), positive=False)


def test_names_of_faces_are_plain_and_do_not_meet() -> None:
    names = ["v", "V", "v#1", "v!1", "größe", "a b"]
    faces = [table(name, "delta") for name in names]
    assert len(set(faces)) == len(names)
    assert all(
        face.replace("_", "").isascii() and face.replace("_", "").isalnum() for face in faces
    )
    assert quote("it`s") == "`it``s`"
