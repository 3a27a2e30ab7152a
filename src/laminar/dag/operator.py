"""What may stand at a node: SQL text, a function, or an object of the user's own."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from laminar.dag.node import DagNodeType
from laminar.errors.dag import InvalidOperator


@runtime_checkable
class Operator(Protocol):
    """Turns the change of its input into the change of its output."""

    def process(self, delta: Any, ctx: Any) -> Any:
        """Return the output's delta for one epoch; both are DataFrames with a weight column."""
        ...


@runtime_checkable
class StatefulOperator(Operator, Protocol):
    """An operator that remembers: what it remembers is checkpointed and put back.

    Law: after `b.restore(a.snapshot())`, a and b answer every later delta alike.
    """

    def snapshot(self) -> bytes:
        """Return all that later epochs depend on."""
        ...

    def restore(self, state: bytes) -> None:
        """Forget everything and continue from a snapshot."""
        ...


_STATE_METHODS = ("snapshot", "restore")


def operator_kind(operator: object) -> DagNodeType:
    """Classify what a user gave as an operator, or refuse it.

    A plain function is taken at its word as linear, that is stateless. Nothing and SQL text count
    as stateful: before SQL is compiled no one knows, and assuming state is the safe side.
    """
    if operator is None or _is_sql(operator):
        return DagNodeType.STATEFUL_OPERATOR
    # A class has its methods too, but nothing to call them on: someone forgot the parentheses.
    if isinstance(operator, str | type):
        raise InvalidOperator(operator)
    if _has_method(operator, "process"):
        return _kind_of_object(operator)
    if callable(operator):
        return DagNodeType.STATELESS_OPERATOR
    raise InvalidOperator(operator)


def _is_sql(operator: object) -> bool:
    return isinstance(operator, str) and bool(operator.strip())


def _has_method(operator: object, name: str) -> bool:
    return callable(getattr(operator, name, None))


def _kind_of_object(operator: object) -> DagNodeType:
    present = [_has_method(operator, name) for name in _STATE_METHODS]
    if all(present):
        return DagNodeType.STATEFUL_OPERATOR
    if any(present):
        # Half of the protocol would lose state at the first recovery.
        raise InvalidOperator(operator)
    return DagNodeType.STATELESS_OPERATOR
