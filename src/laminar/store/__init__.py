"""Relations on disk: segments of deltas, one manifest per epoch, and nothing else that counts.

- `<root>/data/<relation>/<epoch>-<unique>.parquet`: immutable; means nothing until it is named.
- `<root>/manifests/<epoch>.json`: names every file of its epoch; its appearance is the commit.
- `<root>/wal/epochs.log`: which ranges an epoch takes, known before it runs.
- `<root>/pending/<table>/<seq>-...parquet`: pushed rows, until no replay of an epoch needs them.
- `<root>/links`: links to segments that an epoch reads; made anew by every process.
- `<root>/lock`: held by the one writer.
"""

from laminar.model.trace import Range
from laminar.store.compaction import compact, plan, stretches
from laminar.store.lock import StateLock
from laminar.store.manifests import ManifestStore, discard, garbage, sweep
from laminar.store.pending import PendingBatch, PendingLog
from laminar.store.segments import SegmentStore
from laminar.store.wal import EpochLog, LoggedEpoch

__all__ = [
    "EpochLog",
    "LoggedEpoch",
    "ManifestStore",
    "PendingBatch",
    "PendingLog",
    "Range",
    "SegmentStore",
    "StateLock",
    "compact",
    "discard",
    "garbage",
    "plan",
    "stretches",
    "sweep",
]
