"""What a catalog says of its views to those who have no Spark."""

from __future__ import annotations

import json
from typing import Any, cast

from laminar.delta.compile import compile_full
from laminar.delta.program import Shape
from laminar.plan.reasons import Reason
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import TableDefinition, ViewDefinition
from laminar.testing.typer import FixedTyper


class Typer(FixedTyper):
    def declare(self, shape: Shape, *, numbered: bool = False) -> None:
        assert shape.columns or numbered


def test_an_outline_holds_columns_inputs_and_strategy() -> None:
    catalog = Catalog(cast("Any", Typer()))
    catalog.add_table(TableDefinition("t", (("n", "BIGINT", True),)))
    shape = Shape("v", ("n", "twice"), ("bigint", "decimal(10,2)"))
    program = compile_full(shape, "SELECT n FROM t", ("t",), Reason.REQUESTED, "asked for")
    catalog.add_view(ViewDefinition("v", "SELECT n FROM t"), program)
    outline = json.loads(json.dumps(catalog.outline()))
    assert outline == {
        "v": {
            "columns": [["n", "bigint"], ["twice", "decimal(10,2)"]],
            "reads": ["t"],
            "strategy": "full",
        }
    }
