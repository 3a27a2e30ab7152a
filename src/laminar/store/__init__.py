"""Relations on disk: segments of deltas, one manifest per epoch, and nothing else that counts.

- `<root>/data/<relation>/<epoch>-<unique>.parquet`: immutable; means nothing until it is named.
- `<root>/manifests/<epoch>.json`: names every file of its epoch; its appearance is the commit.
- `<root>/pending/<table>/<seq>.parquet`: pushed rows that no committed epoch has read yet.
- `<root>/lock`: held by the one writer.
"""

from laminar.store.compaction import compact, plan
from laminar.store.lock import StateLock
from laminar.store.manifests import ManifestStore
from laminar.store.pending import PendingBatch, PendingLog
from laminar.store.retention import discard, garbage, sweep
from laminar.store.segments import SegmentStore

__all__ = [
    "ManifestStore",
    "PendingBatch",
    "PendingLog",
    "SegmentStore",
    "StateLock",
    "compact",
    "discard",
    "garbage",
    "plan",
    "sweep",
]
