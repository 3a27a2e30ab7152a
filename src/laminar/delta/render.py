"""From a stateless plan to the SQL of its three versions: one rule per operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from laminar.delta.anti import delta_anti
from laminar.delta.change import Change, State, columns, quote
from laminar.delta.join import delta_join
from laminar.delta.lateness import delta_timely
from laminar.delta.linear import (
    block_of,
    delta_block,
    delta_constant,
    delta_filter,
    delta_generate,
    delta_project,
    delta_reweigh,
    delta_settled,
    delta_union_all,
)
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import (
    Again,
    Aggregate,
    Aging,
    Anti,
    Close,
    Constant,
    Filter,
    Generate,
    Join,
    KeyedJoin,
    Node,
    Project,
    Recursion,
    Reweigh,
    Sessions,
    Settled,
    Timely,
    TopK,
    UnionAll,
    Window,
    children,
)


@runtime_checkable
class Given(Protocol):
    """States in which the step of a recursion is given rows."""

    def again(self, node: Again) -> Change:
        """Return the rows that it is given."""
        ...


class Everything(Mapping[str, State]):
    """Every relation existed and changed: renders all terms, as typing and explaining want.

    Operators that keep state are rendered as plain queries then.
    """

    def __getitem__(self, relation: str) -> State:
        return State()

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def change(node: Node, states: Mapping[str, State], *, first: bool = False) -> Change:
    """Render a plan of linear operators and joins; `first` is a view's first epoch."""
    block = block_of(node)
    if block is not None:
        return delta_block(block, states[block.relation])
    match node:
        case Constant():
            return delta_constant(node, first=first)
        case Filter():
            return delta_filter(node, change(node.input, states, first=first))
        case Project():
            return delta_project(node, change(node.input, states, first=first))
        case Generate():
            return delta_generate(node, change(node.input, states, first=first))
        case Timely():
            return delta_timely(node, change(node.input, states, first=first), states)
        case Settled():
            return delta_settled(node, change(node.input, states, first=first))
        case Again() if isinstance(states, Given):
            return states.again(node)
        case Again() | Recursion() if isinstance(states, Everything):
            rows = _no_rows(node)
            return Change(rows, rows, rows, insert_only=False, positive=False)
        case Reweigh():
            return delta_reweigh(node, change(node.input, states, first=first))
        case UnionAll():
            return delta_union_all(
                node, [change(each, states, first=first) for each in node.inputs]
            )
        case Join():
            return delta_join(node, [change(each, states, first=first) for each in node.inputs])
        case Anti():
            return delta_anti(
                node,
                change(node.left, states, first=first),
                change(node.right, states, first=first),
            )
        case Aggregate() | Sessions() | Close() | Aging() | Window() | KeyedJoin() | TopK() if (
            isinstance(states, Everything)
        ):
            rows = _as_query(node, states)
            return Change(rows, rows, rows, insert_only=False, positive=False)
        case _:
            raise TypeError(f"{type(node).__name__} keeps state and is a relation of its own")


def _no_rows(node: Again | Recursion) -> str:
    """Render what only types are asked of."""
    pairs = zip(node.columns, node.types, strict=True)
    items = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in pairs)
    return f"SELECT {items}, 1L AS {WEIGHT} FROM RANGE(0)"


def _as_query(
    node: Aggregate | Sessions | Close | Aging | Window | KeyedJoin | TopK, states: Everything
) -> str:
    """Render an operator that keeps state as the plain query it stands for: right in its types."""
    rows = [f"({change(each, states).after})" for each in children(node)]
    match node:
        case Aggregate():
            keys = columns(node.keys)
            calls = [f"{call.sql} AS {call.name}" for call in node.calls]
            items = ", ".join([*([keys] if keys else []), *calls])
            group = f" GROUP BY {keys}" if keys else ""
            return f"SELECT {items}, 1L AS {WEIGHT} FROM {rows[0]}{group}"
        case Window():
            items = "".join(f", {expression} AS {name}" for expression, name in node.items)
            return f"SELECT {columns(node.input.columns)}{items}, {WEIGHT} FROM {rows[0]}"
        case KeyedJoin():
            listed = columns(node.columns)
            kind = "LEFT" if node.kind == "ASOF" else node.kind
            join = f"{rows[0]} l {kind} JOIN {rows[1]} r ON {node.condition}"
            return f"SELECT {listed}, 1L AS {WEIGHT} FROM {join}"
        case TopK() | Close() | Aging():
            return f"SELECT * FROM {rows[0]}"
        case Sessions():
            window = f"SESSION_WINDOW({node.time}, '{node.gap}')"
            named = [*(quote(key) for key in node.keys), f"{window} AS {node.window}"]
            named += [f"{call.sql} AS {call.name}" for call in node.calls]
            group = ", ".join([*(quote(key) for key in node.keys), window])
            return f"SELECT {', '.join(named)}, 1L AS {WEIGHT} FROM {rows[0]} GROUP BY {group}"
