"""CHAR(n) and VARCHAR(n), also inside of other types: what a value becomes, and what is too long.

    CHAR(3)      'a' becomes 'a  '     'a    ' becomes 'a  '    'abcd' is too long
    VARCHAR(3)   'a' stays             'a    ' becomes 'a  '    'abcd' is too long

in fields, elements, keys and values alike.
"""

from __future__ import annotations

from laminar.model.char_columns import has_lengths, text_length
from laminar.model.quoting import backquoted, string_literal
from laminar.model.types import parts_of


def fitted(value: str, kind: str, depth: int = 0) -> str:
    """Render a value with every text in it cut, or filled up, to its length."""
    found = text_length(kind)
    if found is not None:
        return _fitted_text(value, *found)
    if not has_lengths(kind):
        return value
    outer, parts = parts_of(kind)
    if outer == "struct":
        fields = ", ".join(
            f"{string_literal(name)}, {fitted(_field(value, name), part, depth)}"
            for name, part in parts
        )
        return f"IF({value} IS NULL, NULL, NAMED_STRUCT({fields}))"
    if outer == "map":
        keys, values = (f"array<{part}>" for _, part in parts)
        keys, values = (
            fitted(f"MAP_KEYS({value})", keys, depth),
            fitted(f"MAP_VALUES({value})", values, depth),
        )
        return f"MAP_FROM_ARRAYS({keys}, {values})"
    each = f"__x{depth}"
    return f"TRANSFORM({value}, {each} -> {fitted(each, parts[0][1], depth + 1)})"


def too_long(value: str, kind: str, depth: int = 0) -> str:
    """Render a condition: a text in a value has more characters than its type."""
    found = text_length(kind)
    if found is not None:
        return f"CHAR_LENGTH({value}) > {found[1]}"
    if not has_lengths(kind):
        return "FALSE"
    outer, parts = parts_of(kind)
    if outer == "struct":
        fields = (too_long(_field(value, name), part, depth) for name, part in parts)
        return f"({' OR '.join(fields)})"
    if outer == "map":
        keys, values = (f"array<{part}>" for _, part in parts)
        found_in = (
            too_long(f"MAP_KEYS({value})", keys, depth),
            too_long(f"MAP_VALUES({value})", values, depth),
        )
        return f"({' OR '.join(found_in)})"
    each = f"__x{depth}"
    return f"EXISTS({value}, {each} -> {too_long(each, parts[0][1], depth + 1)})"


def _fitted_text(value: str, word: str, length: int) -> str:
    fits = f"CHAR_LENGTH({value}) > {length} AND CHAR_LENGTH(RTRIM({value})) <= {length}"
    if word == "char":
        return f"IF({fits} OR CHAR_LENGTH({value}) < {length}, RPAD({value}, {length}), {value})"
    return f"IF({fits}, LEFT({value}, {length}), {value})"


def _field(value: str, name: str) -> str:
    return f"{value}.{backquoted(name)}"
