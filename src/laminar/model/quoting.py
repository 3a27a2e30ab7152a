"""Names, strings and paths as Spark reads them back, whatever signs they hold."""

from __future__ import annotations

import re
from pathlib import Path


def backquoted(name: str) -> str:
    """Return a name of one part; dots in it do not divide it."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """Return what a name of one part means, with or without backquotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def string_literal(value: str) -> str:
    """Return a string in quotes; a backslash stays a backslash."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


_GLOB = re.compile(r"([\\\[\]{}*?])")


def target_uri(path: Path) -> str:
    """Return what to write to: a writer takes every sign literally."""
    return f"file://{path}"


def source_uri(path: Path) -> str:
    """Return what to read from: a reader takes a path for a pattern, so its signs are escaped."""
    return _GLOB.sub(r"\\\1", target_uri(path))
