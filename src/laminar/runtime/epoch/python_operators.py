"""Python operators: functions that are declared linear, and objects with a state of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import expr

from laminar.dag import (
    Custom,
    HashBy,
    PartitioningStrategy,
    RoundRobin,
    Single,
    StatefulOperator,
)
from laminar.delta.change import quote
from laminar.delta.program import Applied
from laminar.errors import InvalidOperator, OperatorError, SchemaMismatch
from laminar.model.trace import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.relations.bindings import Bindings


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What an operator may know about the epoch it runs in."""

    epoch: int
    spark: SparkSession
    inputs: Mapping[str, DataFrame]
    """The delta of every input, by name."""


def apply(relation: Applied, bindings: Bindings, session: SparkSession, epoch: int) -> DataFrame:
    """Run an operator on the deltas of its inputs."""
    if hasattr(relation.operator, "process"):
        ways = dict(relation.spread)
        deltas = {
            name: placed(bindings.consolidated_delta(name), ways.get(name))
            for name in relation.reads
        }
        given = next(iter(deltas.values())) if len(deltas) == 1 else deltas
        made = relation.operator.process(given, OperatorContext(epoch, session, deltas))
        return checked(relation, made, weighted=True)
    return _linear(relation, bindings)


def placed(frame: DataFrame, way: PartitioningStrategy | None) -> DataFrame:
    """Spread rows over partitions as an edge says; without a word they stay where they are."""
    match way:
        case Single():
            return frame.coalesce(1)
        case RoundRobin(partitions):
            return frame.repartition(partitions or _default(frame))
        case HashBy(key, partitions):
            return frame.repartition(partitions or _default(frame), expr(key))
        case Custom(column, partitions):
            number = expr(f"CAST({quote(column)} AS INT)")
            return frame.repartitionById(partitions or _default(frame), number)
    return frame


def _default(frame: DataFrame) -> int:
    return int(str(frame.sparkSession.conf.get("spark.sql.shuffle.partitions")))


def _linear(relation: Applied, bindings: Bindings) -> DataFrame:
    """f(A + Δ) = f(A) + f(Δ): insertions and retractions go through the function apart."""
    states = [bindings.state(name) for name in relation.reads]
    made = _signed(relation, bindings, 1)
    if not all(state.insert_only or not state.changed for state in states):
        made = made.unionAll(_signed(relation, bindings, -1))
    return made


def _signed(relation: Applied, bindings: Bindings, sign: int) -> DataFrame:
    ways = dict(relation.spread)
    rows = [placed(bindings.plain_delta(name, sign), ways.get(name)) for name in relation.reads]
    made = checked(relation, relation.operator(*rows), weighted=False)
    return made.selectExpr("*", f"{sign}L AS {WEIGHT}")


def checked(relation: Applied, made: Any, *, weighted: bool) -> DataFrame:
    """Hold an operator's output to its declared columns."""
    if not hasattr(made, "selectExpr"):
        raise InvalidOperator(made)
    names = [name.lower() for name in made.columns]
    for name in (*relation.shape.columns, *((WEIGHT,) if weighted else ())):
        if name.lower() not in names:
            raise SchemaMismatch(relation.shape.name, "its output", name, "a column", "nothing")
    pairs = zip(relation.shape.columns, relation.shape.types, strict=True)
    items = [f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in pairs]
    if weighted:
        items.append(f"CAST({WEIGHT} AS BIGINT) AS {WEIGHT}")
    frame: DataFrame = made.selectExpr(*items)
    return frame


def operator_state(operator: Any) -> bytes:
    """Return the state of an operator; nothing if it has none."""
    return operator.snapshot() if isinstance(operator, StatefulOperator) else b""


def operator_states(operators: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the state of every stateful operator.

    Raises:
        OperatorError: one of them cannot say.
    """
    found = {}
    for name, operator in operators.items():
        if isinstance(operator, StatefulOperator):
            try:
                found[name] = operator.snapshot()
            except Exception as error:  # whatever a user's code raises
                raise OperatorError(name, f"its snapshot failed: {error}") from error
    return found


def restore(operators: Mapping[str, Any], saved: Mapping[str, bytes]) -> None:
    """Put every stateful operator back to what a manifest says."""
    for name, operator in operators.items():
        if isinstance(operator, StatefulOperator) and name in saved:
            operator.restore(saved[name])
