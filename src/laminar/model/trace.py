"""What a relation is made of: a trace of segments, and the manifest that names them all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from laminar.errors.store import EpochNotFound, UnsupportedFormat
from laminar.model.state import EngineState

WEIGHT = "__weight"
"""The column that says how often a row counts: +1 insert, -1 delete, any integer in between."""

ARRIVAL = "__arrival"
"""The hidden column of a table that says in which order its rows came."""

PARTITION = "__partition"
"""A column by which a source may say in which of its parts a row was."""

Span: TypeAlias = tuple[int, int]
"""The least and the largest value of a column; times in microseconds."""

FORMAT_VERSION = 1
"""The newest manifest format this code writes and reads."""


@dataclass(frozen=True, slots=True)
class Range:
    """What an epoch takes from one table: rows after `start`, up to and including `end`."""

    table: str
    start: Any
    end: Any


@dataclass(frozen=True, slots=True)
class Segment:
    """Σ of a relation's deltas over the epochs `lo..hi`, in immutable files."""

    files: tuple[str, ...]
    """Paths relative to the store's root."""
    lo: int
    hi: int
    rows: int
    bytes: int
    insert_only: bool
    """No negative weight inside."""
    checksums: tuple[str, ...]
    """One per file."""
    units: bool = False
    """Every weight is 1, so that nobody has to read them."""
    positive: tuple[str, ...] = ()
    """Accumulators that are greater than zero in every row."""
    spans: Mapping[str, Span] = field(default_factory=dict, hash=False)
    """Column -> what its values lie between, for columns that carry time; `c.end` is a field."""

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise ValueError(f"a segment cannot cover epochs {self.lo} to {self.hi}")
        if len(self.files) != len(self.checksums):
            raise ValueError("a segment needs one checksum per file")

    def joined(self, other: Segment) -> Segment:
        """Return Σ of both: the files of this one, then those of the other."""
        spans = {
            name: (min(low, other.spans[name][0]), max(high, other.spans[name][1]))
            for name, (low, high) in self.spans.items()
            if name in other.spans
        }
        return Segment(
            files=self.files + other.files,
            lo=min(self.lo, other.lo),
            hi=max(self.hi, other.hi),
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
            insert_only=self.insert_only and other.insert_only,
            checksums=self.checksums + other.checksums,
            units=self.units and other.units,
            positive=tuple(name for name in self.positive if name in other.positive),
            spans=spans,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        return {name: getattr(self, name) for name in _SEGMENT_FIELDS}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Segment:
        """Read back a segment from plain values."""
        lists = {
            "files": tuple(data["files"]),
            "checksums": tuple(data["checksums"]),
            "positive": tuple(data.get("positive", ())),
            "spans": {name: tuple(span) for name, span in data.get("spans", {}).items()},
        }
        return cls(**{**data, **lists})


@dataclass(frozen=True, slots=True)
class Trace:
    """A relation as a log: its content at the last epoch is the sum of all segments."""

    schema: str
    """Spark DDL text, including the weight."""
    segments: tuple[Segment, ...] = ()
    """Oldest first; their epochs ascend and do not overlap."""

    def __post_init__(self) -> None:
        _check_order(self.segments)

    @property
    def rows(self) -> int:
        """Rows stored, which is more than the relation holds until they are consolidated."""
        return sum(segment.rows for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def insert_only(self) -> bool:
        """Whether nothing was ever deleted; true of the empty trace."""
        return all(segment.insert_only for segment in self.segments)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file the trace needs."""
        return tuple(file for segment in self.segments for file in segment.files)

    def append(self, segment: Segment) -> Trace:
        """Return the trace with a newer delta on top."""
        return dataclasses.replace(self, segments=(*self.segments, segment))

    def split(self, older: Trace) -> tuple[tuple[Segment, ...], tuple[Segment, ...]] | None:
        """Return what an older version of the trace held, and what was added since.

        Neighbours may have been merged meanwhile. None if the trace was built anew, or if it can
        no longer be told apart.
        """
        left = list(older.segments)
        for place, segment in enumerate(self.segments):
            if not left:
                return self.segments[:place], self.segments[place:]
            ends = [each.hi for each in left]
            if segment.lo != left[0].lo or segment.hi not in ends:
                return None
            if segment.hi == left[0].hi and segment != left[0]:
                return None
            del left[: ends.index(segment.hi) + 1]
        return None if left else (self.segments, ())

    def cut(self, epoch: int) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        """Return the deltas up to an epoch, and those after it.

        Raises:
            EpochNotFound: the epoch's end was merged away, so it cannot be told apart.
        """
        for segment in self.segments:
            if segment.lo <= epoch < segment.hi:
                raise EpochNotFound(epoch, segment.hi, self.segments[-1].hi)
        older = sum(segment.hi <= epoch for segment in self.segments)
        return self.segments[:older], self.segments[older:]

    def replace(self, olds: Sequence[Segment], new: Segment | None) -> Trace:
        """Return the trace with adjacent segments merged into one; None if all cancelled out."""
        if not olds or olds[0] not in self.segments:
            raise ValueError("the segments to replace are not part of the trace")
        start = self.segments.index(olds[0])
        stop = start + len(olds)
        if self.segments[start:stop] != tuple(olds):
            raise ValueError("the segments to replace are not adjacent in the trace")
        merged = () if new is None else (new,)
        return dataclasses.replace(
            self, segments=(*self.segments[:start], *merged, *self.segments[stop:])
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trace:
        """Read back a trace from plain values."""
        return cls(data["schema"], tuple(map(Segment.from_json, data["segments"])))


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that is true at one epoch. Writing it is what commits the epoch."""

    epoch: int
    traces: Mapping[str, Trace]
    offsets: Mapping[str, Any]
    """Source -> how far it was read."""
    catalog: Sequence[Mapping[str, Any]]
    """Definitions of tables and views."""
    watermarks: Mapping[str, int]
    state: EngineState
    """Whatever else must be remembered."""
    committed_at: str
    """ISO 8601."""
    revision: int = 0
    """Definitions may change while the data stays at its epoch; each change is a revision."""
    format_version: int = FORMAT_VERSION

    @property
    def files(self) -> frozenset[str]:
        """Every data file this epoch needs."""
        return frozenset(file for trace in self.traces.values() for file in trace.files)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` takes and `from_json` reads back."""
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        # Free-form parts are handed over as they are; asdict would copy every one of them.
        traces = {name: _trace(trace) for name, trace in self.traces.items()}
        return own | {"traces": traces, "state": self.state.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """Read a manifest back.

        Raises:
            UnsupportedFormat: another version wrote it; nothing else of it was looked at.
        """
        version = int(data["format_version"])
        if not 1 <= version <= FORMAT_VERSION:
            raise UnsupportedFormat(version, FORMAT_VERSION, "a manifest")
        traces = {name: Trace.from_json(trace) for name, trace in data["traces"].items()}
        state = EngineState.from_json(data["state"])
        return cls(**{**data, "traces": traces, "state": state})


def united(segments: Sequence[Segment]) -> dict[str, Span]:
    """Return the spans of what several segments hold together, where each of them knows."""
    if not segments:
        return {}
    known = set.intersection(*(set(each.spans) for each in segments))
    return {
        name: (
            min(each.spans[name][0] for each in segments),
            max(each.spans[name][1] for each in segments),
        )
        for name in sorted(known)
    }


_SEGMENT_FIELDS = tuple(field.name for field in dataclasses.fields(Segment))


def _trace(trace: Trace) -> dict[str, Any]:
    return {"schema": trace.schema, "segments": [segment.to_json() for segment in trace.segments]}


def _check_order(segments: Sequence[Segment]) -> None:
    for older, newer in pairwise(segments):
        if newer.lo <= older.hi:
            raise ValueError(
                f"epochs {newer.lo}-{newer.hi} do not follow {older.lo}-{older.hi} in a trace"
            )
