"""Linear operators: f(a + b) = f(a) + f(b), hence Δf(a) = f(Δa). They keep no state."""

from __future__ import annotations

from dataclasses import replace

from laminar.delta.change import Change, columns, consolidate, union
from laminar.model.same_row import RowType
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import (
    Constant,
    Filter,
    Generate,
    Node,
    Project,
    Reweigh,
    Scan,
    Settled,
    UnionAll,
)


def keeps_weights(node: Node) -> bool:
    """Whether each row that comes out has the weight of one that went in."""
    if isinstance(node, Filter | Project | Generate):
        return keeps_weights(node.input)
    return isinstance(node, Scan)


def delta_filter(node: Filter, given: Change) -> Change:
    """Δσ(A) = σ(ΔA)."""
    return given.map(lambda rows: f"SELECT * FROM ({rows}) AS __r WHERE {node.predicate}")


def delta_project(node: Project, given: Change) -> Change:
    """Δπ(A) = π(ΔA); weights stay with their rows."""
    items = "".join(
        f"{name}, " if expression == name else f"{expression} AS {name}, "
        for expression, name in node.items
    )
    return given.map(lambda rows: f"SELECT {items}{WEIGHT} FROM ({rows})")


def delta_generate(node: Generate, given: Change) -> Change:
    """Δ explode(A) = explode(ΔA); each produced row has its row's weight."""
    kind = "LATERAL VIEW OUTER" if node.outer else "LATERAL VIEW"
    return given.map(
        lambda rows: (
            f"SELECT {columns(node.columns)}, {WEIGHT} FROM ({rows}) "
            f"{kind} {node.generator} made AS {columns(node.produced)}"
        )
    )


def delta_reweigh(node: Reweigh, given: Change) -> Change:
    """Multiply each row's weight by a number that depends on the row alone."""
    return given.map(
        lambda rows: (
            f"SELECT {columns(node.columns)}, {WEIGHT} * ({node.factor}) AS {WEIGHT} "
            f"FROM ({rows}) WHERE ({node.factor}) <> 0"
        ),
        reweighs=True,
    )


def delta_settled(node: Settled, given: Change) -> Change:
    """Leave out of before and after what cancels: as Z-sets they stay what they are."""
    if given.positive:
        return given
    row = RowType(node.columns, node.types)
    before = given.before and consolidate(given.before, row)
    after = given.after and consolidate(given.after, row)
    return replace(given, before=before, after=after, positive=True)


def delta_union_all(node: UnionAll, given: list[Change]) -> Change:
    """Δ(A + B) = ΔA + ΔB."""

    def summed(texts: list[str | None]) -> str | None:
        parts = []
        for child, rows in zip(node.inputs, texts, strict=True):
            if rows is not None:
                parts.append(f"SELECT {_renamed(node, child.columns)}, {WEIGHT} FROM ({rows})")
        return union(parts)

    return Change(
        summed([each.before for each in given]),
        summed([each.after for each in given]),
        summed([each.delta for each in given]),
        all(each.insert_only for each in given if each.delta is not None),
        all(each.positive for each in given),
        all(each.units for each in given if each.delta is not None),
    )


def _renamed(node: UnionAll, names: tuple[str, ...]) -> str:
    if node.types:
        triples = zip(names, node.types, node.columns, strict=True)
        return ", ".join(f"CAST({name} AS {kind}) AS {new}" for name, kind, new in triples)
    pairs = zip(names, node.columns, strict=True)
    return ", ".join(f"{name} AS {new}" if name != new else name for name, new in pairs)


def delta_constant(node: Constant, *, first: bool) -> Change:
    """Written rows appear in the first epoch of a view and never change."""
    rows = f"SELECT {columns(node.columns)}, 1L AS {WEIGHT} FROM ({node.sql})"
    return Change(None if first else rows, rows, rows if first else None, True, True)
