"""What a sink of files has told its readers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any


def published(folder: Path) -> Counter[tuple[Any, ...]]:
    """Return what its changes add up to; no row may be taken back before it came."""
    held: Counter[tuple[Any, ...]] = Counter()
    for path in sorted(folder.glob("[0-9]*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            sign = 1 if row.pop("__change") == "insert" else -1
            row.pop("__epoch")
            held[tuple(row.values())] += sign
        assert all(count >= 0 for count in held.values()), path
    return +held
