"""What a materialized view is, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from laminar.model.schema import Schema


class MvState(StrEnum):
    """Whether a view takes part in the epochs."""

    RUNNING = "Running"
    PAUSED = "Paused"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """A named query over tables and other views.

    `sources` may be given as any sequence; it is kept as a tuple, each name once, in the order of
    first mention. Without an `operator_id` the view's operator goes by the view's name.
    """

    name: str
    sql: str
    sources: Sequence[str]
    schema: Schema | None = None
    operator_id: str = ""
    state: MvState = MvState.RUNNING

    def __post_init__(self) -> None:
        # A self-join reads one input twice but depends on it once.
        object.__setattr__(self, "sources", tuple(dict.fromkeys(self.sources)))
        object.__setattr__(self, "operator_id", self.operator_id or self.name)
