"""Render src/laminar/__init__.pyi from the table of public names: `python tools/public_stub.py`.

The package looks its names up when they are first used, which no type checker follows; the stub
tells it where each one comes from.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import laminar

STUB = Path(laminar.__file__).with_suffix(".pyi")

_HEAD = "# The types of the public names; rendered from __init__.py by tools/public_stub.py.\n"


def render() -> str:
    """Return the stub as ruff would format it: the imports by module, then `__all__`."""
    homes: dict[str, str] = vars(laminar)["_HOMES"]
    names = sorted(homes, key=lambda name: (homes[name], _kind(name), name.lower()))
    imports = [_block(f"from {home} import (", own, ")") for home, own in groupby(names, homes.get)]
    public = sorted(homes, key=lambda name: (_kind(name), name))
    return "\n".join([_HEAD, *imports, "", _block("__all__ = [", map(_quoted, public), "]"), ""])


def _block(opening: str, names: Iterable[str], closing: str) -> str:
    return "\n".join([opening, *(f"    {name}," for name in names), closing])


def _kind(name: str) -> int:
    """Rank constants before classes before functions."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def _quoted(name: str) -> str:
    return f'"{name}"'


if __name__ == "__main__":
    STUB.write_text(render(), encoding="utf-8")
    print(f"wrote {STUB}")
