"""One spelling per type: Spark's simple string, in lower case."""

from __future__ import annotations

import re
from collections.abc import Iterator

from laminar.errors.dag import InvalidSchema
from laminar.model.quoting import backquoted, unquoted

_SYNONYMS = {
    "bool": "boolean",
    "byte": "tinyint",
    "dec": "decimal",
    "integer": "int",
    "long": "bigint",
    "numeric": "decimal",
    "real": "float",
    "short": "smallint",
    "text": "string",
    "timestamp_ltz": "timestamp",
}
_OPEN, _CLOSE = "<(", ">)"
_SCALAR = re.compile(r"([a-z_][a-z0-9_ ]*?)\s*(?:\(([^()]*)\))?$")
_GENERIC = re.compile(r"(array|map|struct)\s*<(.*)>$", re.DOTALL)
_TEXT_OF_LENGTH = ("char", "character", "varchar")
_LENGTH = re.compile(rf"`[^`]*`|\b({'|'.join(_TEXT_OF_LENGTH)})\s*\(", re.IGNORECASE)
_ATOMIC = re.compile(
    r"(bigint|binary|boolean|date|double|float|int|smallint|string( collate [a-z0-9_]+)?|timestamp"
    r"|timestamp_ntz|tinyint|variant|void|interval( [a-z]+( to [a-z]+)?)?)$"
)
_SIZED = ("time", "geometry", "geography")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_COLUMN = re.compile(r"(`(?:[^`]|``)+`|[^\s`:]+)(?:\s*:\s*|\s+)(.+)$", re.DOTALL)
_NOT_NULL = re.compile(r"\s+not\s+null$", re.IGNORECASE)


def split_top_level(text: str, separator: str = ",") -> Iterator[str]:
    """Yield the stripped parts between separators that stand outside brackets and backticks."""
    depth, start, quoted = 0, 0, False
    for at, char in enumerate(text):
        if char == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == separator and depth == 0:
            yield text[start:at].strip()
            start = at + 1
        if depth < 0:
            raise InvalidSchema("a bracket closes that was never opened", text)
    if depth or quoted:
        raise InvalidSchema("a bracket or backtick is left open", text)
    yield text[start:].strip()


def normalise_type(text: str, *, lengths: bool = False) -> str:
    """Return the type as Spark prints it, so that equal types are equal strings.

    Text of a length is STRING to queries; with `lengths` it stays what it is.
    """
    spelled = text.strip()
    # Only the outer keyword folds to lower case: struct field names below keep theirs.
    generic = _GENERIC.match(_lower_head(spelled))
    if generic is None:
        return _scalar(spelled, lengths=lengths)
    kind, inside = generic.groups()
    parts = list(split_top_level(inside))
    if kind == "struct":
        fields = [_struct_field(part, lengths=lengths) for part in parts] if inside.strip() else []
        return f"struct<{','.join(fields)}>"
    if len(parts) != (2 if kind == "map" else 1):
        raise InvalidSchema(f"{kind} with {len(parts)} type parameters", text)
    return f"{kind}<{','.join(normalise_type(part, lengths=lengths) for part in parts)}>"


def parts_of(kind: str) -> tuple[str, list[tuple[str, str]]]:
    """Take a normalised type apart: array, map or struct, and its parts with names of fields.

    A scalar type has no parts, and is returned as it is.
    """
    generic = _GENERIC.match(kind)
    if generic is None:
        return kind, []
    inside = list(split_top_level(generic[2]))
    if generic[1] != "struct":
        return generic[1], [("", part) for part in inside]
    return "struct", [split_column(part)[:2] for part in inside]


def limits_text(text: str) -> bool:
    """Say whether a type has text of so many characters in it, which its name here does not say."""
    return any(found[1] for found in _LENGTH.finditer(text))


def quoted_name(name: str) -> str:
    """Return the name in backticks if Spark would not read it without."""
    return name if _PLAIN_NAME.match(name) else backquoted(name)


def _lower_head(text: str) -> str:
    head, bracket, rest = text.partition("<")
    return head.lower() + bracket + rest


def split_column(text: str) -> tuple[str, str, bool]:
    """Take `name TYPE [NOT NULL]`, or with a colon, apart into name, type and nullable."""
    found = _COLUMN.match(text)
    if found is None:
        raise InvalidSchema(f'"{text}" needs a name and a type')
    name, kind = unquoted(found.group(1)), found.group(2).strip()
    bare = _NOT_NULL.sub("", kind)
    return name, bare, bare == kind


def _struct_field(text: str, *, lengths: bool) -> str:
    # Nullability is not part of the simple string of a type.
    name, kind, _ = split_column(text)
    return f"{quoted_name(name)}:{normalise_type(kind, lengths=lengths)}"


def _scalar(text: str, *, lengths: bool) -> str:
    found = _SCALAR.match(" ".join(text.lower().split()))
    if found is None:
        raise InvalidSchema(f'"{text}" is not a type')
    word, arguments = found.groups()
    name = _SYNONYMS.get(word, word)
    if name == "decimal":
        return _decimal(arguments, text)
    if name in _TEXT_OF_LENGTH and arguments is not None and arguments.strip().isdigit():
        kind = "varchar" if name == "varchar" else "char"
        return f"{kind}({int(arguments)})" if lengths else "string"
    if name == "time" and arguments is None:
        return "time(6)"
    if name in _SIZED and arguments is not None:
        return f"{name}({arguments.strip()})"
    if arguments is None and _ATOMIC.match(name):
        return name
    raise InvalidSchema(f'"{text}" is not a type')


def _decimal(arguments: str | None, text: str) -> str:
    digits = [part.strip() for part in (arguments or "10").split(",")]
    if len(digits) > 2 or not all(part.isdigit() for part in digits):
        raise InvalidSchema(f'"{text}" is not a type')
    precision, scale = int(digits[0]), int(digits[1]) if len(digits) == 2 else 0
    if not (1 <= precision <= 38 and scale <= precision):
        raise InvalidSchema(f'"{text}" has more digits than a decimal holds')
    return f"decimal({precision},{scale})"
