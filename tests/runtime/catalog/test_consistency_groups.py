"""Which views commit together, by the names and options of a catalog."""

from __future__ import annotations

import pytest

from laminar.dag.diamond import DiamondSchedulePolicy
from laminar.runtime.catalog.consistency_groups import groups_of

from ..parts import catalog

TABLES = (
    "CREATE TABLE t (k INT, x INT); CREATE TABLE u (k INT, x INT);"
    "CREATE SOURCE s (x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);"
)
JOIN = "SELECT a.k, b.x FROM {} a JOIN {} b ON a.k = b.k"


def script(**views: str) -> str:
    """Views by name: what they read, and their options behind `with`."""
    made = []
    for name, text in views.items():
        reads, _, options = text.partition(" with ")
        given = f"WITH ({options})" if options else ""
        sources = reads.split()
        query = f"SELECT k, x FROM {reads}" if len(sources) == 1 else JOIN.format(*sources)
        made.append(f"CREATE MATERIALIZED VIEW {name} {given} AS {query};")
    return TABLES + "".join(made)


SLOWEST = "diamond_schedule_policy = slowest"
NONE = "diamond_consistency = none"

CASES: list[tuple[dict[str, str], list[str]]] = [
    ({}, []),
    ({"a": "t", "b": "a"}, ["a", "b"]),
    ({"a": "t", "b": "t u"}, ["a", "b"]),
    ({"a": "t", "b": "t", "c": "a b"}, ["1 [a, b, c] meets in c: atomic, fastest"]),
    (
        {"a": "t", "b": "t", "c": f"a b with {SLOWEST}"},
        ["1 [a, b, c] meets in c: atomic, slowest"],
    ),
    # Those who do not meet have no say.
    (
        {"a": f"t with {SLOWEST}", "b": "t", "c": "a b"},
        ["1 [a, b, c] meets in c: atomic, fastest"],
    ),
    # Two diamonds that share a view are one group, and the stricter policy counts.
    (
        {"a": "t", "b": "t", "c": "a b", "d": "t", "e": f"b d with {SLOWEST}"},
        ["1 [a, b, c, d, e] meets in c, e: atomic, slowest"],
    ),
    ({"a": "t", "b": "t", "c": f"a b with {NONE}"}, ["a", "b", "c"]),
    (
        {"a": "t", "b": "t", "c": "a b", "d": "u", "e": "u", "f": "d e"},
        ["1 [a, b, c] meets in c: atomic, fastest", "2 [d, e, f] meets in f: atomic, fastest"],
    ),
]


@pytest.mark.parametrize(("views", "groups"), CASES, ids=[str(number) for number in range(9)])
def test_groups(views: dict[str, str], groups: list[str]) -> None:
    found = groups_of(catalog(script(**views)))
    assert [each.told() if each.number else each.name for each in found] == groups


@pytest.mark.parametrize(
    ("options", "late", "members"),
    [
        ("", "LATE DATA TO missed", ("v", "missed")),
        (f"WITH ({NONE})", "LATE DATA TO missed", ("v", "missed")),  # whatever was asked for
        ("", "", ("v",)),
    ],
)
def test_a_view_goes_with_its_late_rows(options: str, late: str, members: tuple[str, ...]) -> None:
    found = catalog(
        f"{TABLES} CREATE MATERIALIZED VIEW v {options} AS"
        " SELECT TUMBLE_END(ts, '1 hour') AS e, COUNT(*) AS n FROM s"
        f" GROUP BY TUMBLE(ts, '1 hour') EMIT ON WINDOW CLOSE {late}"
    )
    assert [each.members for each in groups_of(found)] == [members]


def test_a_group_comes_after_those_it_reads() -> None:
    found = groups_of(catalog(script(z="t", a="z", b="z", c="a b", y="c u")))
    assert [each.members for each in found] == [("z",), ("a", "b", "c"), ("y",)]
    assert [each.number for each in found] == [None, 1, None]
    assert found[1].policy is DiamondSchedulePolicy.FASTEST
