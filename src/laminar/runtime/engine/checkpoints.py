"""Checkpoints of a running engine: triggered with epochs, written in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from laminar.checkpoint import (
    CheckpointStorage,
    DagCheckpointConfig,
    DagCheckpointCoordinator,
    DagCheckpointMetadata,
)
from laminar.checkpoint.in_flight import Delivered, Overtaken
from laminar.dag.barrier import BarrierType, CheckpointBarrier
from laminar.errors import SegmentMissing
from laminar.model.ids import NodeId
from laminar.model.trace import Manifest
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.settings import steady
from laminar.runtime.epoch.python_operators import operator_state
from laminar.runtime.history.turn import inside
from laminar.store import LoggedEpoch
from laminar.store.links import SegmentGone

if TYPE_CHECKING:
    from laminar.runtime.catalog.settings import Settings
    from laminar.runtime.history.ledger import Ledger
    from laminar.runtime.spark.workspace import Environment

_LOG = logging.getLogger("laminar.checkpoint")
_TRIES = 3
"""An epoch may get a new revision while it is being kept; then that one is kept."""


@dataclass(frozen=True, slots=True)
class FailedCheckpoint:
    """A checkpoint that was given up, and why."""

    checkpoint_id: int
    epoch: int
    trigger: str
    failed_at: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a checkpoint keeps, and how."""

    manifest: Manifest
    config: DagCheckpointConfig
    pushed: list[str]
    overtaken: list[Overtaken]


@dataclass(frozen=True, slots=True)
class _Saving:
    """A checkpoint that is being written."""

    epoch: int
    overtaken: tuple[int, ...]
    """Epochs in flight whose rows are kept with it."""
    future: Future[DagCheckpointMetadata]


class Checkpoints:
    """All checkpoints of a database.

    Epochs call `enter`, `report` and `committed`, each of which only decides; what is written is
    written by one thread beside them.

    Args:
        env: where they are kept, and the clock.
        ledger: what is committed, logged, and waits.
        defined: the DAG that barriers pass, and the settings.
    """

    def __init__(self, env: Environment, ledger: Ledger, defined: Defined) -> None:
        self._env = env
        self._ledger = ledger
        self._defined = defined
        self.storage = CheckpointStorage(env.root)
        if not env.read_only:
            self.storage.sweep()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="laminar-checkpoint")
        self._guard = threading.Lock()
        self._ticks = steady(env.clock)
        self._last_ms = self._ticks()
        self._coordinator: DagCheckpointCoordinator | None = None
        self._settings: Settings | None = None  # those that the configuration was read from
        self._config = DagCheckpointConfig()
        self._with_epoch: dict[int, list[int]] = {}
        """Epoch -> the checkpoints whose barriers it carries."""
        self._saving: dict[int, _Saving] = {}
        self._taken: dict[int, list[Delivered]] = {}
        """Epoch in flight -> what it took from connectors."""
        self.complete: list[DagCheckpointMetadata] = self.storage.complete()
        """Those that can be restored, oldest first."""
        self.failed: list[FailedCheckpoint] = []
        """Those that were given up since the database was opened."""

    def config(self) -> DagCheckpointConfig:
        """Return what the settings say now; they are read anew when they change."""
        settings = self._defined.settings
        if self._settings is not settings:
            self._settings, self._config = settings, self._read(settings)
        return self._config

    def _read(self, settings: Settings) -> DagCheckpointConfig:
        interval = settings.number("checkpoint_interval_ms") / 1000
        return DagCheckpointConfig(
            interval=interval or None,
            barrier_type=BarrierType(settings.text("checkpoint_barrier")),
            alignment_timeout=settings.number("checkpoint_timeout_ms") / 1000,
            incremental=settings.is_on("checkpoint_incremental"),
            max_concurrent=settings.number("checkpoint_max_concurrent"),
            retained=settings.number("checkpoint_retained"),
            copies=settings.is_on("checkpoint_copies"),
        )

    # With the epochs

    def enter(self, epoch: int) -> CheckpointBarrier | None:
        """Return the barrier that an epoch carries, if a checkpoint waits or one is due."""
        with self._guard:
            self._expire()
            coordinator = self._current()
            self._withdraw(epoch)  # one that is tried again carries its barrier again
            carried = {each for ids in self._with_epoch.values() for each in ids}
            waiting = [each for each in coordinator.active if each not in carried]
            if not waiting:
                if not self._is_due():
                    return None
                self._last_ms = self._ticks()
                if coordinator.config.barrier_type is BarrierType.UNALIGNED:
                    # It overtakes all that is on its way, this epoch too.
                    self._all_report("interval")
                    return None
                waiting = [coordinator.trigger_checkpoint("interval")]
            self._with_epoch.setdefault(epoch, []).append(waiting[0])
            return coordinator.barrier(waiting[0])

    def report(self, barrier: CheckpointBarrier, node: NodeId) -> None:
        """Take a node's snapshot: a barrier has just passed it, and the next epoch has not."""
        name = self._defined.catalog.dag.nodes[node].name
        with inside(self._env.store.root, name):
            state = operator_state(self._defined.operators.get(name))  # a user's code: no lock
        with self._guard:
            self._current().on_node_snapshot_complete(barrier.checkpoint_id, node, state)

    def withdrawn(self, epoch: int) -> None:
        """Note that an epoch failed, and those after it; their barriers go with later ones."""
        with self._guard:
            self._withdraw(epoch)

    def _withdraw(self, epoch: int) -> None:
        lost = [each for each in self._with_epoch if each >= epoch]
        for each in [each for number in lost for each in self._with_epoch.pop(number)]:
            progress = self._current().active.get(each)
            if progress is not None:
                progress.pending_nodes |= progress.completed_nodes
                progress.completed_nodes.clear()

    def took(self, epoch: int, delivered: list[Delivered]) -> None:
        """Note what an epoch took from connectors, before it runs."""
        with self._guard:
            self._taken[epoch] = delivered

    def committed(self) -> None:
        """Keep the epoch that was just committed, if it carried a barrier through all nodes."""
        manifest = self._ledger.manifest
        with self._guard:
            self._taken = {e: each for e, each in self._taken.items() if e > manifest.epoch}
            for each in self._with_epoch.pop(manifest.epoch, []):
                self._submit(each, manifest)

    def idle(self) -> None:
        """Keep the current epoch if a checkpoint is due and no epoch comes to carry it."""
        with self._guard:
            self._expire()
            manifest = self._ledger.manifest
            if not self._is_due() or manifest.revision < 0 or self._is_kept(manifest):
                return
            self._last_ms = self._ticks()
            self._all_report("interval")

    def now(self, trigger: str = "manual") -> int:
        """Keep the current epoch; on return the checkpoint is complete. Returns its number.

        Raises:
            LaminarError: it could not be kept; the last complete checkpoint stays valid.
        """
        while True:
            with self._ledger.turn("a checkpoint"), self._guard:
                if len(self._saving) < self.config().max_concurrent:
                    checkpoint_id = self._all_report(trigger)
                    future = self._saving[checkpoint_id].future
                    break
                others = [each.future for each in self._saving.values()]
            others[0].exception()  # waits; what went wrong is in `failed`
        future.result()
        return checkpoint_id

    def _all_report(self, trigger: str) -> int:
        """Begin and end a checkpoint of what is committed: every node has a state of then."""
        manifest = self._ledger.manifest
        coordinator = self._current()
        checkpoint_id = coordinator.trigger_checkpoint(trigger)
        states = manifest.state.operators
        for node_id, node in coordinator.dag.nodes.items():
            state = states.get(node.name, b"")
            coordinator.on_node_snapshot_complete(checkpoint_id, node_id, state)
        self._submit(checkpoint_id, manifest)
        return checkpoint_id

    # In the background

    def _submit(self, checkpoint_id: int, manifest: Manifest) -> None:
        coordinator = self._current()
        coordinator.note_offsets(checkpoint_id, manifest.offsets)
        draft = coordinator.finalize_checkpoint(checkpoint_id)
        if draft is None:
            return
        tables = [name for name, each in self._defined.tables().items() if each.connector is None]
        last = {name: self._ledger.pending.newest(name) for name in tables}
        pushed = [
            each.path.relative_to(self._env.root.resolve()).as_posix()
            for name in tables
            for each in self._ledger.pending.after(name, manifest.offsets.get(name) or 0)
            if each.seq <= last[name]
        ]
        draft = replace(
            draft,
            watermarks=manifest.watermarks,
            epoch=manifest.epoch,
            revision=manifest.revision,
            created_at=datetime.fromtimestamp(self._env.clock() / 1000, UTC).isoformat(),
            pushed=last,
        )
        kept = _Kept(manifest, self.config(), pushed, self._overtaken(manifest.epoch))
        epochs = tuple(each.logged.epoch for each in kept.overtaken)
        future = self._pool.submit(self._save, draft, kept)
        self._saving[checkpoint_id] = _Saving(manifest.epoch, epochs, future)

    def _overtaken(self, epoch: int) -> list[Overtaken]:
        """Return the epochs in flight that a checkpoint has to keep rows of.

        An aligned one has overtaken none; but what waits in our own files alone is always kept.
        """
        overtakes = self.config().barrier_type is BarrierType.UNALIGNED
        return [
            Overtaken(each, self._delivered(each))
            for each in self._ledger.wal.open_after(epoch)
            if overtakes or self._ledger.in_flight.holds(each.epoch)
        ]

    def _delivered(self, logged: LoggedEpoch) -> tuple[Delivered, ...]:
        known = self._taken.get(logged.epoch)
        if known is None and self._ledger.in_flight.holds(logged.epoch):
            known = list(self._ledger.in_flight.waiting(logged.epoch))
        return tuple(each for each in known or () if each.range in logged.ranges)

    def _save(self, draft: DagCheckpointMetadata, kept: _Kept) -> DagCheckpointMetadata:
        try:
            done = self._saved(draft, kept)
            self.storage.retain(kept.config.retained)
            with self._guard:
                self.complete = self.storage.complete()
            return done
        except Exception as error:
            # Whoever asked for it gets it, too; for one by the clock this is the only place.
            with self._guard:
                self._fail(draft.checkpoint_id, draft.epoch, draft.trigger, error)
            raise
        finally:
            with self._guard:
                self._saving.pop(draft.checkpoint_id, None)

    def _saved(self, draft: DagCheckpointMetadata, kept: _Kept) -> DagCheckpointMetadata:
        for tried in range(1, _TRIES + 1):
            try:
                return self.storage.save(
                    draft, kept.manifest, kept.config, kept.pushed, kept.overtaken
                )
            except SegmentGone as error:
                if tried == _TRIES:
                    raise SegmentMissing(str(error)) from error
                manifest = self._ledger.timeline.get(kept.manifest.epoch)
                kept = replace(kept, manifest=manifest, overtaken=self._still(kept.overtaken))
                draft = replace(draft, revision=manifest.revision)
        raise AssertionError("unreachable")

    def _still(self, overtaken: list[Overtaken]) -> list[Overtaken]:
        """Return the epochs whose rows are there: one that failed was called off, with the rest."""
        root = self._env.root
        return list(
            takewhile(lambda each: all((root / name).exists() for name in each.files), overtaken)
        )

    # What is known

    def pinned(self, _epoch: int) -> frozenset[int]:
        """Return the epochs that are being kept: their segments must not go meanwhile."""
        with self._guard:
            pinned = set(self._with_epoch)
            for each in self._saving.values():
                pinned |= {each.epoch, *each.overtaken}
            return frozenset(pinned)

    def replay_from(self, oldest_retained: int) -> int:
        """Return the oldest epoch from which recovery may have to replay.

        Args:
            oldest_retained: the oldest epoch that is kept for reading.
        """
        with self._guard:
            # Pushed rows that a checkpoint is to keep must be there until it has them.
            wanted = [each.epoch for each in self._saving.values()]
            if self.complete and self.config().interval is not None:
                return min([self.complete[0].epoch, *wanted])
            return min([oldest_retained, *wanted])

    @property
    def under_way(self) -> Mapping[int, int]:
        """Checkpoint -> its epoch, of those that are being written."""
        with self._guard:
            return {number: each.epoch for number, each in self._saving.items()}

    def settle(self) -> None:
        """Wait until nothing is being written; what went wrong is in `failed`."""
        with self._guard:
            waiting = [each.future for each in self._saving.values()]
        for each in waiting:
            each.exception()  # waits; what went wrong is in `failed`

    def close(self) -> None:
        """Finish what is being written and end the thread."""
        self._pool.shutdown(wait=True)

    def _current(self) -> DagCheckpointCoordinator:
        """Return the coordinator of the topology as it is now."""
        dag, last, clock = self._defined.catalog.dag, self._coordinator, self._env.clock
        if last is None or last.dag is not dag:
            first = max(self.storage.next_id(), last.next_checkpoint_id if last else 1)
            self._coordinator = DagCheckpointCoordinator(
                dag, self.config(), clock=clock, ticks=self._ticks, first_id=first
            )
            for each in last.active.values() if last is not None else ():
                self._coordinator.trigger_checkpoint(each.trigger)
        assert self._coordinator is not None
        self._coordinator.config = self.config()
        return self._coordinator

    def _is_due(self) -> bool:
        busy = len(self._saving) + len(self._current().active)
        return busy < self.config().max_concurrent and self._current().is_due(self._last_ms)

    def _is_kept(self, manifest: Manifest) -> bool:
        version = (manifest.epoch, manifest.revision)
        return (
            bool(self.complete) and (self.complete[-1].epoch, self.complete[-1].revision) == version
        )

    def _expire(self) -> None:
        for error in self._current().expire():
            self._fail(error.checkpoint_id, self._ledger.manifest.epoch, "interval", error)
            for ids in self._with_epoch.values():
                if error.checkpoint_id in ids:
                    ids.remove(error.checkpoint_id)

    def _fail(self, checkpoint_id: int, epoch: int, trigger: str, error: Exception) -> None:
        at = datetime.now(UTC).isoformat()
        failed = FailedCheckpoint(checkpoint_id, epoch, trigger, at, str(error))
        self.failed = [*self.failed[-99:], failed]
        _LOG.warning("checkpoint %d failed: %s", checkpoint_id, error)
