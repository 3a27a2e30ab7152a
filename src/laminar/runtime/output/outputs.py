"""Who hears of changes: sinks, subscriptions, and the log that both ride on."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.runtime.output.changelog import DagChangelogPropagator
from laminar.runtime.output.sinks import Publisher
from laminar.runtime.output.subscriptions import Subscriptions


@dataclass(frozen=True, slots=True)
class Outputs:
    """All ways out of a database."""

    changelog: DagChangelogPropagator
    sinks: Publisher
    subscriptions: Subscriptions

    def tapped(self) -> frozenset[str]:
        """Return the relations whose changes somebody outside wants."""
        return self.sinks.books.tapped() | self.subscriptions.tapped()
