"""Files of JSON lines with trades; the same for the same seed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

EVENTS_PER_FILE = 100_000
SYMBOLS = [f"S{number:03d}" for number in range(50)]
START = datetime(2026, 1, 1, tzinfo=UTC)


def write_files(folder: Path, files: int, *, events: int = EVENTS_PER_FILE, seed: int = 1) -> None:
    """Write `files` files in name order; event time rises by 6 ms per event."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for index in range(files):
        lines = []
        for _ in range(events):
            at = (START + timedelta(milliseconds=number * 6)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
            lines.append(
                f'{{"trade_id":{number},"symbol":"{draw.choice(SYMBOLS)}",'
                f'"price":{draw.uniform(10, 500):.2f},"volume":{draw.randint(1, 12000)},'
                f'"event_time":"{at}"}}\n'
            )
            number += 1
        (folder / f"trades-{index:05d}.json").write_text("".join(lines))
