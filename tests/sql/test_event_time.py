from __future__ import annotations

import pytest

from laminar.errors import NotSupported
from laminar.sql import Watermark
from laminar.sql.asof import has_asof, rewrite_asof, spell_out
from laminar.sql.intervals import micros
from laminar.sql.watermarks import delay_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 second", 1_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("1.5 second", 1_500_000),
        ("-2 day", -172_800_000_000),
    ],
)
def test_an_interval_has_a_length(text: str, expected: int) -> None:
    assert micros(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1 month", "1 second and a bit"])
def test_what_has_no_fixed_length_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        micros(text)


def test_how_late_a_source_may_be() -> None:
    assert delay_of(Watermark("ts", "TS")) == 0
    assert delay_of(Watermark("ts", "`ts` - INTERVAL '5' SECOND")) == 5_000_000
    for text in ("other", "ts + INTERVAL '5' SECOND", "ts - INTERVAL '5' SECOND + 1", "f(ts)"):
        with pytest.raises(NotSupported):
            delay_of(Watermark("ts", text))


def test_asof_is_a_join_that_spark_can_check() -> None:
    query = "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k WHERE x"
    assert has_asof(query)
    assert rewrite_asof(query) == (
        "SELECT * FROM a LEFT JOIN b ON (a.ts >= b.ts) AND 'laminar asof' IS NOT NULL AND"
        " a.k = b.k WHERE x"
    )
    assert not has_asof("SELECT asof FROM t JOIN u")
    for wrong in (
        "SELECT * FROM a ASOF JOIN b ON a.k = b.k",
        "SELECT * FROM a ASOF JOIN b MATCH_CONDITION a.ts >= b.ts ON a.k = b.k",
        "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts)",
    ):
        with pytest.raises(NotSupported):
            rewrite_asof(wrong)


def test_asof_is_spelled_out_for_a_query() -> None:
    query = "SELECT * FROM a ASOF JOIN u.b AS q MATCH_CONDITION (a.ts >= q.ts) ON a.k = q.k WHERE x"
    assert spell_out(query) == (
        "SELECT * FROM a JOIN LATERAL (SELECT __m.* FROM (SELECT MAX_BY(__g, __t) AS __m FROM"
        " (SELECT q.ts AS __t, MAX(STRUCT(q.*)) AS __g FROM u.b AS q WHERE (a.ts >= q.ts)"
        " AND (a.k = q.k) GROUP BY q.ts))) AS q WHERE x"
    )
    two = (
        "SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (b.t > a.t) ON a.k = LEFT(b.k, 1)"
        " ASOF JOIN (SELECT * FROM c ASOF JOIN d MATCH_CONDITION (c.t < d.t) ON c.k = d.k) e"
        " MATCH_CONDITION (a.t <= e.t) ON (a.k, 1) = (e.k, 1)"
    )
    made = spell_out(two)
    assert not has_asof(made)
    assert made.count("MIN_BY(__g, __t)") == 3
    assert "AND (a.k = LEFT(b.k, 1)) GROUP BY b.t" in made
    for wrong in ("a.ts = b.ts", "a.ts >= a.ts"):
        with pytest.raises(NotSupported):
            spell_out(f"SELECT * FROM a ASOF JOIN b MATCH_CONDITION ({wrong}) ON a.k = b.k")
