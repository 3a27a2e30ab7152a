"""The same row: one notion for everything that tells rows apart, and it goes by bytes.

    two rows are the same  <=>  their columns hold the same values, down to the bytes
                                (NULL is NULL, and all NaNs are one)

So -0.0 is not 0.0, 'a' is not 'A' whatever the collation, a map is not one with its entries in
another order, and that holds inside of arrays, structs and maps too. It has to: an expression may
tell such values apart, and f(A + Δ) = f(A) + f(Δ) only holds if what Δ takes back is what A has.

Spark's GROUP BY and `=` are coarser, by type. Here is what has to stand in their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from laminar.model.quoting import backquoted
from laminar.model.types import parts_of

_FLOATING = frozenset(("float", "double"))
_COLLATED = re.compile(r"string collate (\w+)", re.IGNORECASE)
_NESTED = re.compile(r"(array|map|struct)\s*<", re.IGNORECASE)
_COARSE = re.compile(r"\b(float|double|collate|map|variant)\b", re.IGNORECASE)
_JSON = (
    "MAP('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """How GROUP BY tells the values of a column apart by their bytes, and shows them again."""

    by: tuple[str, ...]
    shown: str


def identity(value: str, kind: str) -> Identity:
    """Return the identity of the values of an expression of a Spark type."""
    if kind in _FLOATING:
        # Spark groups -0.0 with 0.0, and shows the latter.
        minus = is_minus_zero(value)
        return Identity((value, minus), f"IF({minus}, CAST('-0.0' AS {kind}), {value})")
    collation = collation_of(kind)
    if collation is not None:
        plain = f"({value} COLLATE UTF8_BINARY)"
        return Identity((plain,), f"({plain} COLLATE {collation})")
    if kind == "variant":
        # 1 and 1.0 are written alike.
        return Identity((as_text(value), f"SCHEMA_OF_VARIANT({value})"), f"ANY_VALUE({value})")
    if has_variants(kind):
        return Identity((as_text(value), _schemas(value, kind)), f"ANY_VALUE({value})")
    if is_coarse(kind):
        return Identity((as_text(value),), f"ANY_VALUE({value})")
    return Identity((value,), value)


def has_variants(kind: str) -> bool:
    """Whether a type is VARIANT, or has it inside; a field may have that name."""
    if "variant" not in kind:
        return False
    return kind == "variant" or any(has_variants(part) for _, part in parts_of(kind)[1])


def _schemas(value: str, kind: str, depth: int = 0) -> str:
    """Render the schemas of the variants in a value; it has some."""
    if kind == "variant":
        return f"SCHEMA_OF_VARIANT({value})"
    outer, parts = parts_of(kind)
    if outer == "struct":
        fields = ((f"{value}.{backquoted(name)}", part) for name, part in parts)
        listed = (_schemas(*each, depth) for each in fields if has_variants(each[1]))
        return f"STRUCT({', '.join(listed)})"
    each, inside = f"__e{depth}", f"MAP_VALUES({value})" if outer == "map" else value
    return f"TRANSFORM({inside}, {each} -> {_schemas(each, parts[-1][1], depth + 1)})"


def sought(value: str, kind: str) -> Identity:
    """Return the identity by which a row is looked for that somebody wants to take back.

    Nobody sees in which order a map has its entries, so that does not matter; what is found is
    taken as it is stored.
    """
    if kind.startswith("map<") and kind.count("map<") == 1 and "variant" not in kind:
        return Identity((as_text(f"SORT_ARRAY(MAP_ENTRIES({value}))"),), value)
    return identity(value, kind)


def is_coarse(kind: str) -> bool:
    """Whether Spark takes values of a type for equal that are not the same."""
    if kind in _FLOATING or kind == "variant" or collation_of(kind) is not None:
        return True
    return _NESTED.match(kind) is not None and _COARSE.search(kind) is not None


def collation_of(kind: str) -> str | None:
    """Return the collation of a type of text; None for bytes, and for all other types."""
    found = _COLLATED.fullmatch(kind)
    return found.group(1) if found and found.group(1).upper() != "UTF8_BINARY" else None


def is_minus_zero(value: str) -> str:
    """Render the test that a number of floating point is -0.0: no comparison tells."""
    return f"({value} = 0 AND CAST({value} AS STRING) = '-0.0')"


def as_text(value: str) -> str:
    """Render a nested value as text that differs where its bytes do."""
    return f"TO_JSON(STRUCT({value} AS v), {_JSON})"


def same(one: str, other: str, kind: str) -> str:
    """Render the test that two values of a type are the same."""
    pairs = zip(identity(one, kind).by, identity(other, kind).by, strict=True)
    return " AND ".join(f"{a} <=> {b}" for a, b in pairs)


def tie_breaker(value: str, kind: str) -> str:
    """Render what orders values that are equal to Spark, but not the same."""
    collation = collation_of(kind)
    if collation is not None:
        return f"({value} COLLATE UTF8_BINARY)"
    return f"IF({value} = 0, CAST({value} AS STRING), '')" if kind in _FLOATING else as_text(value)


def has_code(kind: str) -> bool:
    """Whether `encoded` changes values of a type."""
    return kind in _FLOATING or collation_of(kind) is not None


def encoded(value: str, kind: str) -> str:
    """Render a value as one that Spark groups and compares by its bytes; see `decoded`."""
    if kind in _FLOATING:
        return f"CAST({value} AS STRING)"
    return f"({value} COLLATE UTF8_BINARY)" if collation_of(kind) is not None else value


def decoded(code: str, kind: str) -> str:
    """Render the value that was encoded."""
    if kind in _FLOATING:
        return f"CAST({code} AS {kind.upper()})"
    collation = collation_of(kind)
    return code if collation is None else f"({code} COLLATE {collation})"


@dataclass(frozen=True, slots=True)
class RowType:
    """Columns of rows with their types: what has to be known to tell the rows apart."""

    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    @classmethod
    def of(cls, kinds: Mapping[str, str]) -> RowType:
        """Make one of column -> type."""
        return cls(tuple(kinds), tuple(kinds.values()))

    def only(self, names: tuple[str, ...]) -> RowType:
        """Return some of the columns."""
        known = dict(zip(self.names, self.kinds, strict=True))
        return RowType(names, tuple(known[name] for name in names))

    def kind(self, name: str) -> str:
        """Return the type of a column."""
        return self.kinds[self.names.index(name)]

    def plus(self, name: str, kind: str) -> RowType:
        """Return the columns and one more."""
        return RowType((*self.names, name), (*self.kinds, kind))
