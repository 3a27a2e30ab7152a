"""Run all benchmarks, or those named: `python -m benchmarks dag`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.report import Row

PREFIX = "bench_"


def available() -> list[str]:
    """Return the names of all benchmarks: one per file `bench_<name>.py`."""
    files = Path(__file__).parent.glob(f"{PREFIX}*.py")
    return sorted(file.stem.removeprefix(PREFIX) for file in files)


def table_of(name: str, rows: list[Row]) -> Table:
    """Lay out the figures of one benchmark."""
    table = Table("measure", "value", "unit", "note", title=name, title_justify="left")
    table.columns[1].justify = "right"
    for row in rows:
        table.add_row(
            row.name,
            f"{row.value:,.3g}" if row.value < 100 else f"{row.value:,.0f}",
            row.unit,
            row.note,
        )
    return table


def main(arguments: list[str]) -> int:
    """Run what was asked for; exit code 2 if there is no such benchmark."""
    names = available()
    unknown = [name for name in arguments if name not in names]
    if unknown:
        print(
            f"unknown benchmark: {', '.join(unknown)}; there are: {', '.join(names)}",
            file=sys.stderr,
        )
        return 2
    console = Console()
    for name in arguments or names:
        rows: list[Row] = import_module(f"benchmarks.{PREFIX}{name}").run()
        console.print(table_of(name, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
