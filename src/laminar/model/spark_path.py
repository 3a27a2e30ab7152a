"""Paths in the form in which Spark takes them as they are, whatever its default file system."""

from __future__ import annotations

import re
from pathlib import Path

_GLOB = re.compile(r"([\\\[\]{}*?])")


def target_uri(path: Path) -> str:
    """Return what to write to: a writer takes every sign literally."""
    return f"file://{path}"


def source_uri(path: Path) -> str:
    """Return what to read from: a reader takes a path for a pattern, so its signs are escaped."""
    return _GLOB.sub(r"\\\1", target_uri(path))
