"""Watermarks of a DAG: by partition at its sources, by minimum further down, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from laminar.errors import DuplicateName, InvalidSetting
from laminar.mv.watermark import Advance, CascadingWatermarkTracker, DependencyGraph

Partition: TypeAlias = int | str
"""What a source calls its parts: Kafka numbers them, a directory names its files."""


class PartitionedWatermark:
    """One watermark for a source that is read in parts.

    Law: it is the highest value that the minimum over the live partitions ever had. A partition
    that has not spoken yet is live and holds it back. With a timeout, a partition that has been
    silent for that long is left out until it speaks again; if all are, the value stays.

    Time is what the caller says it is: `now_ms` may be any clock that does not jump.
    """

    def __init__(self, idle_timeout_ms: int | None = None) -> None:
        self.timeout_ms = _checked_timeout(idle_timeout_ms)
        """After how much silence a partition is left out; None waits for ever."""
        self._watermarks: dict[Partition, int | None] = {}
        self._heard: dict[Partition, int] = {}
        self._combined: int | None = None

    @property
    def combined(self) -> int | None:
        """The watermark of the source as a whole, or None while a partition has none."""
        return self._combined

    def add_partition(self, partition: Partition, now_ms: int | None = None) -> None:
        """Expect a partition; its silence counts from now, or else from the next time given."""
        self._watermarks.setdefault(partition, None)
        if now_ms is not None:
            self._heard.setdefault(partition, now_ms)

    def update(self, partition: Partition, watermark: int, now_ms: int) -> int | None:
        """Hear from a partition; return the combined watermark if that moved it.

        A lower value than before is a sign of life and nothing else.
        """
        present = self._watermarks.get(partition)
        self._watermarks[partition] = watermark if present is None else max(present, watermark)
        self._heard[partition] = now_ms
        return self.expire(now_ms)

    def expire(self, now_ms: int) -> int | None:
        """Let time pass; return the combined watermark if a silent partition had held it back."""
        low = self._minimum(now_ms)
        if low is None or (self._combined is not None and low <= self._combined):
            return None
        self._combined = low
        return low

    def is_idle(self, now_ms: int) -> bool:
        """Return whether there are partitions, and all of them have been silent for too long."""
        return bool(self._watermarks) and not self._live(now_ms)

    def _live(self, now_ms: int) -> list[Partition]:
        if self.timeout_ms is None:
            return list(self._watermarks)
        return [
            partition
            for partition in self._watermarks
            if now_ms - self._heard.setdefault(partition, now_ms) < self.timeout_ms
        ]

    def _minimum(self, now_ms: int) -> int | None:
        low: int | None = None
        for partition in self._live(now_ms):
            watermark = self._watermarks[partition]
            if watermark is None:
                return None
            low = watermark if low is None else min(low, watermark)
        return low


@dataclass(frozen=True, slots=True)
class WatermarkAlignmentGroup:
    """Sources whose watermarks may drift apart by `max_drift` and no further.

    Reading far ahead of the slowest only fills the state of the joins further down.
    """

    name: str
    members: tuple[str, ...]
    max_drift: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if self.max_drift < 0:
            raise InvalidSetting("max_drift", self.max_drift, "0 or more")

    def ahead(self, watermarks: Mapping[str, int]) -> tuple[str, ...]:
        """Return the members to pause: those more than `max_drift` ahead of the slowest.

        A member without a watermark is not compared: how far it lags is not known.
        """
        known = {name: watermarks[name] for name in self.members if name in watermarks}
        limit = min(known.values(), default=0) + self.max_drift
        return tuple(name for name, watermark in known.items() if watermark > limit)


class DagWatermarkTracker:
    """The watermarks of all nodes of a DAG.

    A `CascadingWatermarkTracker` spreads them: to every reader at a fan-out, by minimum at a
    fan-in. This adds what only sources have: partitions, silence, and bounds on their drift.
    A source that delivers a watermark is awake, whatever was said of it before.
    """

    def __init__(self, graph: DependencyGraph, *, idle_timeout_ms: int | None = None) -> None:
        self._inner = CascadingWatermarkTracker(graph)
        self._timeout = _checked_timeout(idle_timeout_ms)
        self._timeouts: dict[str, int] = {}
        self._partitioned: dict[str, PartitionedWatermark] = {}
        self._groups: dict[str, WatermarkAlignmentGroup] = {}

    def advance_source_watermark(self, source: str, watermark: int) -> list[Advance]:
        """Raise the watermark of a source read as a whole; return what moved, it first."""
        # Raising before waking settles the readers once, with the new value.
        return self._inner.update_watermark(source, watermark) + self._wake(source)

    def add_partition(
        self, source: str, partition: Partition, now_ms: int | None = None
    ) -> list[Advance]:
        """Expect a partition of a source: it wakes the source and holds it until it speaks."""
        self._partitions(source).add_partition(partition, now_ms)
        return self._wake(source)

    def advance_partition_watermark(
        self, source: str, partition: Partition, watermark: int, now_ms: int
    ) -> list[Advance]:
        """Raise the watermark of one partition of a source; return what moved, the source first."""
        combined = self._partitions(source).update(partition, watermark, now_ms)
        if combined is None:
            return self._wake(source)
        return self.advance_source_watermark(source, combined)

    def expire_idle(self, now_ms: int) -> list[Advance]:
        """Stop waiting for partitions, and whole sources, that have been silent for too long.

        Return what moved: by source, and in dependency order for each.
        """
        moved: list[Advance] = []
        for source in self._known_partitioned():
            moved += self._expire(source, now_ms)
        return moved

    def mark_idle(self, name: str) -> list[Advance]:
        """Leave a node out of every minimum; return what moved."""
        return self._inner.mark_idle(name)

    def mark_active(self, name: str) -> list[Advance]:
        """Count a node again; return what moved."""
        return self._inner.mark_active(name)

    def is_idle(self, name: str) -> bool:
        """Return whether a node is idle itself, or reads nothing but idle nodes."""
        return self._inner.is_idle(name)

    def get_watermark(self, name: str) -> int | None:
        """Return the watermark of a node, or None while it has none."""
        return self._inner.get_watermark(name)

    def watermarks(self) -> dict[str, int]:
        """Return every watermark there is, in dependency order."""
        return self._inner.watermarks()

    def restore(self, watermarks: Mapping[str, int]) -> None:
        """Go back to a snapshot; partitions will speak for themselves again."""
        self._partitioned.clear()
        self._inner.restore(watermarks)

    def add_alignment_group(self, group: WatermarkAlignmentGroup) -> None:
        """Bound the drift between some sources; all of them must be known."""
        if group.name in self._groups:
            raise DuplicateName(group.name)
        for member in group.members:
            self._inner.get_watermark(member)
        self._groups[group.name] = group

    def set_alignment_groups(self, groups: Iterable[WatermarkAlignmentGroup]) -> None:
        """Bound the drift of these groups, and of no others."""
        self._groups = {}
        for group in groups:
            self.add_alignment_group(group)

    def set_idle_timeouts(self, default_ms: int | None, by_source: Mapping[str, int]) -> None:
        """Say after how much silence a source is left out: for all, and for some their own."""
        self._timeout = _checked_timeout(default_ms)
        self._timeouts = {name: each for name, each in by_source.items() if _checked_timeout(each)}
        for source, partitions in self._partitioned.items():
            partitions.timeout_ms = self._timeouts.get(source, self._timeout)

    def paused_sources(self) -> tuple[str, ...]:
        """Return the sources that some alignment group finds too far ahead to be read now."""
        awake = self.awake()
        paused = (name for group in self._groups.values() for name in group.ahead(awake))
        return tuple(dict.fromkeys(paused))

    def alignment_groups(self) -> tuple[WatermarkAlignmentGroup, ...]:
        """Return the groups whose drift is bounded."""
        return tuple(self._groups.values())

    def awake(self) -> dict[str, int]:
        """Return the watermarks that are compared.

        An idle source must not hold the others back, nor is there anything to pause in it.
        """
        return {
            name: watermark
            for name, watermark in self._inner.watermarks().items()
            if not self._inner.is_idle(name)
        }

    def _wake(self, source: str) -> list[Advance]:
        return self._inner.mark_active(source) if self._inner.is_idle(source) else []

    def _partitions(self, source: str) -> PartitionedWatermark:
        self._inner.get_watermark(source)  # an unknown source is an error, not a new entry
        timeout = self._timeouts.get(source, self._timeout)
        return self._partitioned.setdefault(source, PartitionedWatermark(timeout))

    def _known_partitioned(self) -> list[str]:
        """Return the sources with partitions, after forgetting those that were dropped."""
        for source in [name for name in self._partitioned if name not in self._inner]:
            del self._partitioned[source]
        return list(self._partitioned)

    def _expire(self, source: str, now_ms: int) -> list[Advance]:
        partitions = self._partitioned[source]
        combined = partitions.expire(now_ms)
        if combined is not None:
            return self._inner.update_watermark(source, combined)
        if partitions.is_idle(now_ms) and not self._inner.is_idle(source):
            return self._inner.mark_idle(source)
        return []


def _checked_timeout(timeout_ms: int | None) -> int | None:
    if timeout_ms is not None and timeout_ms <= 0:
        raise InvalidSetting("idle_timeout_ms", timeout_ms, "1 or more, or None")
    return timeout_ms
