"""What is known of a complete checkpoint, in the form it is stored in."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from laminar.errors.store import UnsupportedFormat

FORMAT_VERSION = 2
"""The newest format, the one that is written; older ones are read, too."""


@dataclass(frozen=True, slots=True)
class DagCheckpointMetadata:
    """A complete checkpoint: one epoch of everything, durable and verified."""

    checkpoint_id: int
    duration: float
    """Seconds from the trigger until it was durable."""
    nodes_snapshotted: int
    source_offsets: Mapping[str, Any]
    """Source -> how far it was read."""
    epoch: int = 0
    revision: int = 0
    created_at: str = ""
    """ISO 8601."""
    trigger: str = "manual"
    """Who asked for it: `manual`, `interval`, or a statement that needs one."""
    watermarks: Mapping[str, int] = field(default_factory=dict)
    node_snapshots: Mapping[str, bytes] = field(default_factory=dict)
    """Node -> the state of its Python operator."""
    pushed: Mapping[str, int] = field(default_factory=dict)
    """Table -> the last batch that was pushed by then, read by an epoch or not."""
    in_flight: Mapping[str, Any] = field(default_factory=dict)
    """Epoch that an unaligned barrier overtook -> all that decides what it makes.

    See `in_flight.Overtaken`. Rows that were pushed are in `pushed_files`."""
    pushed_files: Mapping[str, str] = field(default_factory=dict)
    """File of rows that no epoch had read by then -> its checksum; kept with the checkpoint."""
    pool: str = ""
    """The folder of its segments in checkpoint storage."""
    files: int = 0
    bytes: int = 0
    new_files: int = 0
    """Segments' files that had to be kept for it alone."""
    new_bytes: int = 0
    format_version: int = FORMAT_VERSION

    def in_flight_by_epoch(self, shift: int = 0) -> dict[int, Any]:
        """Return what was in flight by epoch, each moved by so many."""
        return {int(epoch) + shift: entry for epoch, entry in self.in_flight.items()}

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        states = {
            name: base64.b64encode(state).decode("ascii")
            for name, state in self.node_snapshots.items()
        }
        return asdict(self) | {"node_snapshots": states}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DagCheckpointMetadata:
        """Read metadata back.

        Raises:
            UnsupportedFormat: another version wrote it; nothing else of it was looked at.
        """
        version = int(data["format_version"])
        if not 1 <= version <= FORMAT_VERSION:
            raise UnsupportedFormat(version, FORMAT_VERSION, "a checkpoint")
        if version == 1:
            # It noted ranges only, so connectors have to be read again from where they were.
            data = {**data, "in_flight": {}, "format_version": FORMAT_VERSION}
        states = {name: base64.b64decode(each) for name, each in data["node_snapshots"].items()}
        return cls(**{**data, "node_snapshots": states})
