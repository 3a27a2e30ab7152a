"""What a database remembers from one epoch to the next besides rows: the `state` of a manifest.

Nobody else knows how it is written. A name here may be better than the key it has in a manifest;
keys stay as they are, for folders outlive code.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from laminar.model.row_counts import RowCounts, counts_json, counts_of


@dataclass(frozen=True, slots=True)
class Clocks:
    """What must be remembered about the wall clock, and about rows that were late."""

    emitted_at: Mapping[str, int] = field(default_factory=dict)
    """View -> when it last showed its changes, in milliseconds."""
    aged_to: Mapping[str, int] = field(default_factory=dict)
    """Relation whose rows come and go -> the time they are at, in microseconds."""
    late: Mapping[str, int] = field(default_factory=dict)
    """View or table -> how many rows were late for it."""


@dataclass(frozen=True, slots=True)
class UnfinishedRestore:
    """What going back to a checkpoint has left to do after the commit that decided it."""

    checkpoint: int
    pushed: Mapping[str, int]
    """Table -> the last number of rows that were pushed when the checkpoint was made."""
    last: Mapping[str, int]
    """Table -> the last number that was given out before going back; none is given out twice."""
    in_flight: tuple[Mapping[str, Any], ...] = ()
    """The epochs to log again, as the log has them."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """All of it, at one epoch.

    Law: `EngineState.from_json(state.to_json()) == state`, by way of JSON text too, if what is free
    in form (sinks, outlines, the report, failures) holds plain values. Their classes belong to
    those who make them.
    """

    # What is defined.
    fused: frozenset[str] = frozenset()
    """Views that keep no rows: whoever reads one takes its definition into his own."""
    outlines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """View -> its columns, what it reads, its strategy: for readers without Spark."""
    operators: Mapping[str, bytes] = field(default_factory=dict)
    """View of a stateful Python operator -> what that operator said to remember."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Setting -> its value, of those that were set."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Setting of Spark -> its value, of those that decide what statements answer."""
    functions: tuple[Mapping[str, Any], ...] = ()
    """Definitions of the user's functions, first defined first."""
    schemas: tuple[Mapping[str, str], ...] = ()
    """The user's schemas: name and comment, first created first."""
    sinks: tuple[Mapping[str, Any], ...] = ()
    """Definitions of sinks, first defined first."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """What the epoch did; empty if it only holds definitions."""

    # How far time has come.
    said: Mapping[str, int] = field(default_factory=dict)
    """Source -> a watermark that somebody announced and no epoch has acted on."""
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Source -> the watermark of each of its parts."""
    clocks: Clocks = field(default_factory=Clocks)
    cuts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Epoch that a view stands at, or the newest -> the watermark of every relation then."""

    counts: Mapping[str, RowCounts] = field(default_factory=dict)
    """Source or table -> what became of its rows, since it was counted."""

    # Where views stand.
    paused: frozenset[str] = frozenset()
    """Views that the user has paused."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """View -> the epoch its rows are of; views that are at the newest epoch are not listed."""
    filled: Mapping[str, int] = field(default_factory=dict)
    """View -> the epoch at which its rows begin: before that there is nothing to read."""
    failures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """View -> how it failed the last time it was tried."""
    gated: frozenset[str] = frozenset()
    """Sources whose rows no view may see yet."""
    stepped_ms: Mapping[str, int] = field(default_factory=dict)
    """View with a schedule -> when it last stepped, in milliseconds from 1970."""
    commits: Mapping[str, int] = field(default_factory=dict)
    """View -> how often its group has committed."""

    # What recovery or a restore has left to do; the next commit of an epoch no longer says it.
    rebuild: tuple[str, ...] = ()
    """Views that have to be filled before anything else."""
    restored: UnfinishedRestore | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Keys that another version wrote: recovery and restores hand them on, a commit does not."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back; what is free in form is not copied."""
        known: dict[str, Any] = {}
        for each in FORM:
            value = getattr(self, each.name)
            if value or not each.is_rare:
                known[each.key] = each.write(value)
        return {**known, **self.unknown}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EngineState:
        """Read it back from what a manifest has; older ones lack keys, and some keys are null."""
        given = {each.name: (each.read, data.get(each.key)) for each in FORM}
        known = {name: read(value) for name, (read, value) in given.items() if value is not None}
        keys = {each.key for each in FORM}
        return cls(**known, unknown={key: data[key] for key in data if key not in keys})


def _decoded(states: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(each, validate=True) for name, each in states.items()}


def _encoded(states: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(each).decode("ascii") for name, each in states.items()}


def _by_number(cuts: Mapping[str, Mapping[str, int]]) -> dict[int, Mapping[str, int]]:
    return {int(epoch): marks for epoch, marks in cuts.items()}


def _by_text(cuts: Mapping[int, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    return {str(epoch): marks for epoch, marks in cuts.items()}


def _restore(left: Mapping[str, Any]) -> UnfinishedRestore:
    return UnfinishedRestore(**{**left, "in_flight": tuple(left.get("in_flight", ()))})


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Part:
    """How a manifest has one field of the state."""

    name: str
    key: str
    read: Callable[[Any], Any] = dict
    write: Callable[[Any], Any] = _same
    is_rare: bool = False
    """Left out where there is nothing to say."""


FORM = (
    Part("fused", "fused", frozenset, sorted),
    Part("outlines", "views"),
    Part("operators", "operators", _decoded, _encoded),
    Part("settings", "settings"),
    Part("spark", "spark", is_rare=True),
    Part("functions", "functions", tuple, list, is_rare=True),
    Part("schemas", "schemas", tuple, list, is_rare=True),
    Part("sinks", "sinks", tuple, list),
    Part("report", "report", write=lambda report: report or None),
    Part("said", "said"),
    Part("parts", "parts"),
    Part("clocks", "clocks", lambda clocks: Clocks(**clocks), asdict),
    Part("cuts", "cuts", _by_number, _by_text),
    Part("counts", "counts", counts_of, counts_json, is_rare=True),
    Part("paused", "paused", frozenset, sorted),
    Part("behind", "held"),
    Part("filled", "filled"),
    Part("failures", "failures"),
    Part("gated", "gated", frozenset, sorted),
    Part("stepped_ms", "stepped_ms"),
    Part("commits", "commits"),
    Part("rebuild", "rebuild", tuple, list, is_rare=True),
    Part("restored", "restored", _restore, asdict, is_rare=True),
)
"""Every field but `unknown`, in the order in which manifests have them."""
