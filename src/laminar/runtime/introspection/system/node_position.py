"""Where a node stands: its epoch, and its place in the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.runtime.scheduling.view_progress import ViewProgress

if TYPE_CHECKING:
    from laminar.dag import StreamingDag
    from laminar.model.ids import NodeId
    from laminar.runtime.history.timeline import Snapshot


def epoch_of(name: str, snapshot: Snapshot) -> int:
    """Return the last epoch a relation has applied; one that is held stays behind."""
    return ViewProgress.from_state(snapshot.manifest.state).cursor(name, snapshot.manifest.epoch)


def wave_of(dag: StreamingDag) -> dict[NodeId, int]:
    """Return for each node after how many others' waves it runs."""
    return {node: number for number, wave in enumerate(dag.waves()) for node in wave}
