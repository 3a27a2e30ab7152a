"""What a database consists of, and what is missing before it can run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from laminar.dag import HashBy
from laminar.delta.program import Program
from laminar.errors import OperatorNotFound
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition
from laminar.runtime.catalog.python_objects import OBJECT, applied

from ..parts import Parts

OPERATOR = OperatorDefinition("o", ("t",), (("a", "int"),))


def parts() -> Parts:
    """A table, a source that is a Python object, a view and a Python operator."""
    found = Parts("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    found.catalog.add_table(TableDefinition("s", (("a", "INT", True),), True, OBJECT))
    found.catalog.add_view(OPERATOR, Program("o", (applied(OPERATOR, None),)))
    return found


def test_tables_are_told_from_views() -> None:
    assert list(parts().defined.tables()) == ["t", "s"]


@pytest.mark.parametrize(
    ("operators", "sources", "missing"),
    [((), (), "o"), (("o",), (), None), ((), ("s",), "o"), (("o",), ("s",), None)],
)
def test_operators_of_python_code_must_be_given_again(
    operators: tuple[str, ...], sources: tuple[str, ...], missing: str | None
) -> None:
    defined = parts().defined
    defined.operators.update(dict.fromkeys(operators, object()))
    defined.sources.update(dict.fromkeys(sources, cast("Any", object())))
    if missing is None:
        defined.require_attached()
    else:
        with pytest.raises(OperatorNotFound, match=f'"{missing}"'):
            defined.require_attached()


def test_the_relation_of_an_operator() -> None:
    spread = (("t", HashBy("a")),)
    made = applied(OPERATOR, len, spread)
    assert (made.shape, made.reads, made.operator) == (OPERATOR.shape, ("t",), len)
    assert made.spread == spread
    assert applied(OPERATOR, None).spread == ()
