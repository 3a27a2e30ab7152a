from __future__ import annotations

from typing import Any

import pytest

from laminar.dag import (
    Custom,
    DagNodeType,
    HashBy,
    Operator,
    RoundRobin,
    Single,
    StatefulOperator,
    operator_kind,
)
from laminar.errors import InvalidOperator, InvalidSetting


class Double:
    def process(self, delta: Any, ctx: Any) -> Any:
        return delta, ctx


class Counting(Double):
    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        del state


class HalfStateful(Double):
    def snapshot(self) -> bytes:
        return b""


class CallableOperator(Counting):
    def __call__(self, delta: Any) -> Any:
        return delta


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (None, DagNodeType.STATEFUL_OPERATOR),
        ("SELECT 1", DagNodeType.STATEFUL_OPERATOR),
        (lambda delta: delta, DagNodeType.STATELESS_OPERATOR),
        (Double(), DagNodeType.STATELESS_OPERATOR),
        (Counting(), DagNodeType.STATEFUL_OPERATOR),
        (CallableOperator(), DagNodeType.STATEFUL_OPERATOR),
    ],
)
def test_what_was_given_tells_the_kind(operator: object, kind: DagNodeType) -> None:
    assert operator_kind(operator) is kind


@pytest.mark.parametrize("operator", [3, "", "  ", object(), [], Double, HalfStateful()])
def test_what_cannot_process_is_refused(operator: object) -> None:
    with pytest.raises(InvalidOperator):
        operator_kind(operator)


def test_the_protocols_can_be_asked_at_run_time() -> None:
    assert isinstance(Double(), Operator)
    assert not isinstance(Double(), StatefulOperator)
    assert isinstance(Counting(), StatefulOperator)


def test_partitioning_strategies_are_values() -> None:
    assert HashBy("symbol", 4) == HashBy("symbol", 4) != HashBy("symbol")
    assert len({Single(), Single(), RoundRobin(), Custom("p")}) == 3


@pytest.mark.parametrize(
    "make",
    [lambda: RoundRobin(0), lambda: HashBy("k", -1), lambda: HashBy(" "), lambda: Custom("")],
)
def test_partitioning_refuses_nonsense(make: Any) -> None:
    with pytest.raises(InvalidSetting):
        make()
