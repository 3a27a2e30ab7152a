"""Where an epoch works: a Spark session with names of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Room:
    """A session, and the store that reads and writes segments in it.

    Faces are bound to names of a session, so two epochs that overlap need one each.
    """

    session: SparkSession
    store: SegmentStore

    @classmethod
    def of(cls, root: Path, session: SparkSession) -> Room:
        """Return the room of a session."""
        return cls(session, SegmentStore(root, session))
