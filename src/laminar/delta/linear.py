"""Linear operators: f(a + b) = f(a) + f(b), hence Δf(a) = f(Δa). They keep no state.

A chain of filters and projections over a relation is one SELECT, a block:

    π₂(σ(π₁(A))) = SELECT π₂∘π₁ FROM A WHERE σ∘π₁

Spark would collapse nested SELECTs into the same plan, but only after it has parsed and analysed
each of them, in every epoch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from laminar.delta.change import (
    Change,
    State,
    Version,
    columns,
    consolidate,
    quote,
    table,
    union,
)
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


_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?<![.\w])c\d+\b")
_COLUMN = re.compile(r"`(?:[^`]|``)*`|c\d+|__\w+")


@dataclass(frozen=True, slots=True)
class Block:
    """SELECT items FROM relation WHERE predicates; all texts are over the relation's columns."""

    relation: str
    items: tuple[tuple[str, str], ...]  # (expression, name)
    predicates: tuple[str, ...] = ()

    def select(self, version: Version, *, units: bool) -> str:
        """Render over one version of the relation."""
        weight = f"1L AS {WEIGHT}" if units else WEIGHT
        return self.select_from(table(self.relation, version), weight)

    def select_from(self, rows: str, weight: str = WEIGHT) -> str:
        """Render over rows with the relation's columns."""
        items = "".join(
            f"{text}, " if text == name else f"{text} AS {name}, " for text, name in self.items
        )
        where = " AND ".join(f"({each})" for each in self.predicates)
        # Without an alias, Spark would take `WHERE (flag)` for one, with a list of columns.
        tail = f" AS __r WHERE {where}" if where else ""
        return f"SELECT {items}{weight} FROM {rows}{tail}"


def block_of(node: Node) -> Block | None:
    """Return a chain of linear operators as one block; None if it has to stay nested."""
    if isinstance(node, Scan):
        return Block(node.relation, tuple((quote(each), name) for each, name in node.items))
    below = block_of(node.input) if isinstance(node, Filter | Project) else None
    if below is None:
        return None
    if isinstance(node, Filter):
        found = _composed([node.predicate], below)
        return replace(below, predicates=(*below.predicates, *found)) if found else None
    assert isinstance(node, Project)
    texts = _composed([text for text, _ in node.items], below)
    if texts is None:
        return None
    names = (name for _, name in node.items)
    return replace(below, items=tuple(zip(texts, names, strict=True)))


def delta_block(block: Block, state: State) -> Change:
    """Δ(π∘σ)(A) = (π∘σ)(ΔA), read from the versions of a stored relation."""
    before, delta = state.held_units, state.units
    after = (before or not state.existed) and (delta or not state.changed)
    return Change(
        block.select(Version.BEFORE, units=before) if state.existed else None,
        block.select(Version.AFTER, units=after) if state.existed or state.changed else None,
        block.select(Version.DELTA, units=delta) if state.changed else None,
        state.insert_only,
        state.positive and (state.insert_only or not state.changed),
        delta,
    )


def prefixed(text: str, prefix: str) -> str:
    """Put a prefix before every column of a plan."""
    return _TOKEN.sub(
        lambda match: f"{prefix}{match.group()}" if match.group()[0] == "c" else match.group(), text
    )


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Put other texts in the place of columns; what is quoted, and fields of structs, stay."""
    return _TOKEN.sub(lambda match: names.get(match.group(), match.group()), text)


def _composed(texts: list[str], below: Block) -> list[str] | None:
    """Write texts over the names of a block as texts over the columns it reads.

    None if that would compute something twice, or if the parameter of a lambda could catch a
    column of its name.
    """
    if any("->" in text for text in texts):
        return None
    written = {name: text for text, name in below.items}
    plain = {name for name, text in written.items() if _COLUMN.fullmatch(text)}
    used = Counter(token for text in texts for token in _TOKEN.findall(text))
    if any(used[name] > 1 for name in written.keys() - plain):
        return None
    inside = {name: text if name in plain else f"({text})" for name, text in written.items()}
    return [written.get(text) or renamed(text, inside) for text in texts]
