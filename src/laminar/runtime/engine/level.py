"""A turn in which no sink is behind: to change something that sinks could not be told of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laminar.errors import WriterBusy

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine

_TRIES = 20
"""So often epochs of others may come between the sinks and the turn."""


@contextmanager
def level_turn(engine: Engine, what: str) -> Iterator[None]:
    """Have the writer's turn when every sink has taken all that is committed.

    Sinks are not called in the turn, so between the two somebody else may commit: then again.

    Raises:
        ConnectorError: a sink fails, so it cannot be brought up to date.
        WriterBusy: see `WriterTurn`; or others are always faster, or the caller is a sink.
    """
    for _ in range(_TRIES):
        engine.outputs.sinks.publish()
        with engine.ledger.turn(what):
            if engine.outputs.sinks.is_level():
                yield
                return
    raise WriterBusy("one sink or epoch after another", 0.0)
