"""A turn in which some sinks are not behind: to change what they could not be told of otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laminar.errors import WriterBusy

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine

_TRIES = 20
"""So often epochs of others may come between the sinks and the turn."""


@contextmanager
def level_turn(engine: Engine, what: str, sinks: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Have the writer's turn when some sinks have taken all that is committed.

    Nobody waits for a sink in the turn, so between the two somebody else may commit: then again.

    Args:
        engine: whose turn.
        what: the statement, for those who wait for it.
        sinks: asks which sinks count.

    Raises:
        SinkBehind: a sink fails, is stopped, or is too slow.
        WriterBusy: see `WriterTurn`; or others are always faster.
    """
    for _ in range(_TRIES):
        engine.outputs.sinks.waits.bring_level(sinks(), what)
        with engine.ledger.turn(what):
            if engine.outputs.sinks.progress.is_level(sinks()):
                yield
                return
    raise WriterBusy("one sink or epoch after another", 0.0)
