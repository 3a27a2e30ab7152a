"""Names and strings as Spark's SQL reads them back, whatever signs they hold."""

from __future__ import annotations


def backquoted(name: str) -> str:
    """Return a name of one part; dots in it do not divide it."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """Return what a name of one part means, with or without backquotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def string_literal(value: str) -> str:
    """Return a string in quotes; a backslash stays a backslash."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
