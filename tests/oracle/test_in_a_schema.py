"""Every case reads the same relations if they are in a schema that is current, without Spark."""

from __future__ import annotations

from laminar.sql import relations_of
from laminar.sql.resolved_names import query_in_full, resolved_query
from laminar.sql.resolved_statements import in_full
from laminar.sql.schemas import Names

from .cases import KINDS

CASES = {case.sql for cases in KINDS.values() for case in cases}
SOME = sorted(CASES)[::6]
INSIDE, OUTSIDE = Names("zz", ("zz",)), Names("default", ("zz",))


def test_a_case_reads_the_same_relations_in_a_schema() -> None:
    wrong = []
    for sql in SOME:
        read = {f"zz.{each.lower()}" for each in relations_of(sql)}
        made = resolved_query(sql, INSIDE, session=False).text
        if {each.lower() for each in relations_of(made)} != read:
            wrong.append(made)
    assert not wrong, "\n".join(wrong)


def test_a_case_is_left_as_it_is_where_default_is_current() -> None:
    assert [sql for sql in CASES if resolved_query(sql, OUTSIDE, session=False).text != sql] == []


def test_a_case_in_full_means_the_same_from_outside() -> None:
    for sql in SOME:
        if not query_in_full(sql, INSIDE):
            continue
        head = "CREATE MATERIALIZED VIEW v AS "
        full = in_full(head + sql, INSIDE).removeprefix("CREATE MATERIALIZED VIEW zz.v AS ")
        made = resolved_query(full, OUTSIDE, session=False).text
        same = resolved_query(sql, INSIDE, session=False).text
        assert set(relations_of(made)) == set(relations_of(same)), full


def test_there_are_many() -> None:
    assert len(CASES) > 400
