"""Event time as arithmetic: how far a column has come, given how far its source has.

A *bound* of a column is a time before which no new value is expected. A step maps the bound of an
expression's argument to the bound of its result; all steps are monotone, so they map the least
value of a batch as well. Times are microseconds from 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

END_OF_TIME = 253_402_300_800_000_000
"""The year 10000: later than any time that SQL can say."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A time moved by a fixed length."""

    by: int

    def least(self, bound: int) -> int:
        """Return the bound of the result: no result is below, if no time is below `bound`."""
        return bound + self.by


class Side(StrEnum):
    """The two fields of a window."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class Edge:
    """The start or the end of the windows [n·slide + offset, + size) that a time lies in."""

    side: Side
    size: int
    slide: int
    offset: int = 0

    def least(self, bound: int) -> int:
        """Return the edge of the first window that ends after the bound."""
        number = (bound - self.size - self.offset) // self.slide + 1
        start = number * self.slide + self.offset
        return start if self.side is Side.START else start + self.size


@dataclass(frozen=True, slots=True)
class Growing:
    """The start or the end of windows that begin together and end a step apart (CUMULATE)."""

    side: Side
    size: int
    step: int

    def least(self, bound: int) -> int:
        """Return the edge of the first window that ends after the bound."""
        start = bound // self.size * self.size
        if self.side is Side.START:
            return start
        return start + ((bound - start) // self.step + 1) * self.step


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The end of the sessions that a time may belong to: any that is still ahead."""

    def least(self, bound: int) -> int:
        """Return the first moment after the bound."""
        return bound + 1


Step: TypeAlias = Shift | Edge | Growing | SessionEnd
Steps: TypeAlias = tuple[Step, ...]


def through(steps: Steps, bound: int) -> int:
    """Carry a bound through several steps."""
    for step in steps:
        bound = step.least(bound)
    return bound


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps from a source's watermark to a column.

    `shown` says what is complete as far as is known, `final` what can no longer change: they
    differ where lateness is allowed on the way.
    """

    shown: Steps = ()
    final: Steps = ()

    def then(self, steps: Steps, lateness: int = 0) -> Chain:
        """Go on through a view that allows some lateness."""
        late = (Shift(-lateness),) if lateness else ()
        return Chain((*self.shown, *steps), (*self.final, *late, *steps))


Chains: TypeAlias = tuple[Chain, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Which columns of a relation carry event time, and how each follows from the watermark.

    A field of a struct is named by its path, `window.end`.
    """

    columns: Mapping[str, Chains] = field(default_factory=dict)


def shown(chains: Iterable[Chain], watermark: int | None) -> int | None:
    """Return the bound of a column by several chains; None while there is no watermark."""
    if watermark is None:
        return None
    return min((through(chain.shown, watermark) for chain in chains), default=None)


def final(chains: Iterable[Chain], watermark: int | None) -> int | None:
    """Return the bound below which a column's rows can no longer change."""
    if watermark is None:
        return None
    return min((through(chain.final, watermark) for chain in chains), default=None)
