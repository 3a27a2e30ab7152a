"""The sink `console`: prints what each epoch changed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.options import Options
from laminar.connectors.sink import SinkSpec
from laminar.model.trace import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "console"
ABOUT = "prints what each epoch changed"
OPTIONS = (
    Option(
        "limit",
        "how many rows of an epoch are printed at most",
        OptionType.INTEGER,
        "20",
        at_least=1,
    ),
)


class ConsoleSink:
    """Prints a line per changed row: its weight, then its values."""

    promise = "at least once: after a crash the last epoch may be printed again"

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit

    def write(self, epoch: int, delta: DataFrame) -> None:
        """Print the first changes of an epoch; one without changes prints nothing."""
        rows = delta.limit(self.limit + 1).collect()
        if not rows:
            return
        lines = [f"-- {self.name}, epoch {epoch}"]
        for row in rows[: self.limit]:
            values = row.asDict(recursive=True)
            weight = values.pop(WEIGHT)
            shown = ", ".join(f"{key}={value}" for key, value in values.items())
            lines.append(f"{weight:+d}  {shown}")
        if len(rows) > self.limit:
            lines.append(f"... more than {self.limit} rows")
        sys.stdout.write("\n".join([*lines, ""]))


def console_sink(spec: SinkSpec) -> ConsoleSink:
    """Build the sink from what a user declared."""
    return ConsoleSink(spec.name, Options.of(NAME, spec.options).integer("limit", 20, at_least=1))
