from __future__ import annotations

from typing import Any

import pytest

from laminar.checkpoint.fingerprint import changed, rows_fingerprint, stored_otherwise

TABLE: dict[str, Any] = {
    "kind": "table",
    "name": "t",
    "columns": (("id", "int", True),),
    "primary_key": ["id"],
}
VIEW: dict[str, Any] = {
    "kind": "view",
    "name": "v",
    "query": "SELECT id FROM t",
    "emission": {"late_to": None},
    "refresh_policy": "auto",
}


def test_the_text_that_cursors_keep_stays_what_it_is() -> None:
    # Were it another one, subscriptions that have a name would end when they are opened again.
    assert rows_fingerprint([TABLE, VIEW], ["t", "v"]) == "63bdac19f16d97acfd816941"


def test_only_what_is_named_counts_for_a_cursor() -> None:
    other = {**TABLE, "columns": (("id", "bigint", True),)}
    assert rows_fingerprint([other, VIEW], ["v"]) == rows_fingerprint([TABLE, VIEW], ["v"])
    assert rows_fingerprint([other, VIEW], ["t"]) != rows_fingerprint([TABLE, VIEW], ["t"])


@pytest.mark.parametrize(
    ("part", "value", "rows", "stored", "kept"),
    [
        ("query", "SELECT 2 * id AS id FROM t", True, True, True),
        ("query", "select  id FROM t -- the same", True, True, False),
        ("refresh_policy", "full", False, True, True),
        ("schedule", "every minute", False, False, False),
    ],
)
def test_who_asks_decides_what_matters(
    part: str, value: str, rows: bool, stored: bool, kept: bool
) -> None:
    before, after = [TABLE, VIEW], [TABLE, {**VIEW, part: value}]
    assert (rows_fingerprint(before, ["v"]) != rows_fingerprint(after, ["v"])) == rows
    assert stored_otherwise(before, after) == ({"v"} if stored else set())
    assert changed(before, after) == (("v",) if kept else ())


def test_a_view_cannot_keep_its_rows_over_another_table() -> None:
    after = [{**TABLE, "primary_key": []}, VIEW]
    assert changed([TABLE, VIEW], after) == ("t", "v")
    assert stored_otherwise([TABLE, VIEW], after) == {"t"}  # its past is told by another key


def test_one_that_was_created_again_alike_has_other_rows() -> None:
    """But rows that a checkpoint kept of the one may go on under the other."""
    born, again = [{**TABLE, "born": "1.0"}], [{**TABLE, "born": "1.2"}]
    assert rows_fingerprint(born, ["t"]) != rows_fingerprint(again, ["t"])
    assert rows_fingerprint([TABLE], ["t"]) == rows_fingerprint([{**TABLE, "born": ""}], ["t"])
    assert stored_otherwise(born, again) == set()
    assert changed(born, again) == ()


def test_what_was_read_back_is_the_same() -> None:
    assert stored_otherwise([TABLE], [{**TABLE, "columns": [["id", "int", True]]}]) == set()
    assert stored_otherwise([TABLE], [TABLE, VIEW]) == stored_otherwise([VIEW], []) == {"v"}
