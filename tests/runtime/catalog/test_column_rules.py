"""What a table declares of its rows: what is refused, and which row and rule it names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from laminar.errors import (
    CheckViolated,
    GeneratedOtherwise,
    LaminarError,
    NonDeterministic,
    NotSupported,
    TextTooLong,
)
from laminar.model.trace import WEIGHT
from laminar.runtime.catalog.column_rules import (
    BROKEN,
    completed,
    default_of,
    instead,
    kept,
    refuse_generated,
    refuse_unfit_rules,
)
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.testing import FixedTyper

TABLE = TableDefinition(
    "t",
    (("s", "string", True), ("n", "int", True), ("twice", "int", True)),
    lengths=(("s", "3"),),
    generated=(("twice", "n * 2"),),
    checks=(("small", "n < 9"),),
    defaults=(("n", "7"),),
)


def rows(*broken: int | None) -> pa.Table:
    """Rows, each with the place of the rule that it breaks."""
    count = len(broken)
    return pa.table(
        {
            "s": [f"s{place}" for place in range(count)],
            "n": list(range(count)),
            "twice": [2 * place for place in range(count)],
            WEIGHT: pa.array([1] * count, pa.int64()),
            BROKEN: pa.array(broken, pa.int32()),
        }
    )


def test_rows_that_keep_all_rules_come_in_as_they_are() -> None:
    assert kept(TABLE, rows(None, None)) == rows(None, None).drop_columns([BROKEN])
    assert kept(TABLE, rows()).num_rows == 0


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [(0, GeneratedOtherwise, "twice"), (1, TextTooLong, "s"), (2, CheckViolated, "small")],
)
def test_a_rule_that_is_broken_names_itself_and_the_first_such_row(
    place: int, error: type[LaminarError], said: str
) -> None:
    with pytest.raises(error) as raised:
        kept(TABLE, rows(None, place, 0))
    told = f"{raised.value.message} {raised.value.detail}"
    assert said in told
    assert "row 2" in told


def test_generated_values_of_before_are_not_held_against_a_row() -> None:
    given = completed(TABLE, "SELECT 1")
    before = completed(TABLE, "SELECT 1", is_given=False)
    assert "IS NOT NULL AND NOT (" in given
    assert "IS NOT NULL AND NOT (" not in before
    assert "CHAR_LENGTH" in before


def test_a_word_stands_for_the_default_of_its_column() -> None:
    assert instead(TABLE, "n", " default ") == default_of(TABLE, "n") == "(\n7\n)"
    assert instead(TABLE, "s", "DEFAULT") == "(\nNULL\n)"
    assert instead(TABLE, "n", "'default'") == "'default'"


def test_a_generated_column_is_not_set() -> None:
    with pytest.raises(NotSupported, match="twice"):
        refuse_generated(TABLE, "twice")
    refuse_generated(TABLE, "n")


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"defaults": (("n", "rand()"),)}, NonDeterministic),
        ({"generated": (("n", "rand()"),)}, NonDeterministic),
        ({"checks": (("c", "s > now()"),)}, NonDeterministic),
        ({"checks": (("c", "n IN (SELECT 1)"),)}, NotSupported),
        ({"defaults": (("n", "(VALUES (1))"),)}, NotSupported),
    ],
)
def test_only_the_row_decides(rule: dict[str, Any], error: type[LaminarError]) -> None:
    columns = (("s", "string", True), ("n", "int", True))
    with pytest.raises(error):
        refuse_unfit_rules(TableDefinition("t", columns, **rule), FixedTyper({"c": "int"}))


def test_a_default_may_be_the_time_of_the_statement() -> None:
    table = TableDefinition("t", (("n", "timestamp", True),), defaults=(("n", "now()"),))
    refuse_unfit_rules(table, FixedTyper({"c": "timestamp"}))
