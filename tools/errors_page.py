"""Render docs/errors.md from the error classes: `python tools/errors_page.py`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import laminar.errors
from laminar.errors import LaminarError

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

RANGES = {
    "0": "Environment",
    "1": "Topology and running a DAG",
    "2": "Views",
    "3": "SQL",
    "4": "Data",
    "5": "Execution",
    "6": "Durability",
    "7": "Bridge",
    "8": "Connectors",
}
"""First digit of a code -> what the range is about."""

_HEAD = """# Errors

Every error is a `laminar.LaminarError` with a stable `code`, a message, and where it helps a
`detail` and a `hint`. This page is rendered from the classes by `tools/errors_page.py`.
"""


def error_classes() -> list[type[LaminarError]]:
    """Return every error class of the package, in order of code."""
    for module in pkgutil.iter_modules(laminar.errors.__path__, "laminar.errors."):
        importlib.import_module(module.name)
    found = {cls for cls in _family(LaminarError) if cls.__module__.startswith("laminar.")}
    return sorted(found, key=lambda cls: (cls.code, cls.__name__))


def render() -> str:
    """Return the page: a section per range, an entry per class."""
    parts = [_HEAD]
    classes = error_classes()
    for digit, title in RANGES.items():
        members = [cls for cls in classes if cls.code.startswith(f"LMR-{digit}")]
        if members:
            parts.append(f"## {title}\n")
            parts.extend(map(_entry, members))
    return "\n".join(parts)


def _family(cls: type[LaminarError]) -> Iterator[type[LaminarError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _family(child)


def _entry(cls: type[LaminarError]) -> str:
    return f"### {cls.code} {cls.__name__}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")
