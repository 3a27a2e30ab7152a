"""Finding the newest state that is whole, and putting it into place.

The order of preference: the newest epoch as it is; the newest epoch with damaged files taken from
checkpoints; with damaged views left to be rebuilt from their inputs; the newest older epoch or
checkpoint that is whole, if the log reaches from there to the newest epoch. Until one of them is
found nothing is touched, and what is damaged is moved aside, never deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from laminar.checkpoint import aside
from laminar.checkpoint.config import RecoveryConfig
from laminar.checkpoint.fingerprint import changed, without
from laminar.checkpoint.in_flight import checksums, put_back
from laminar.checkpoint.metadata import DagCheckpointMetadata
from laminar.checkpoint.recovery_report import DagRecoveryMetrics, Damage
from laminar.checkpoint.storage import CheckpointStorage
from laminar.checkpoint.verify import SegmentFile, fault, faults, segment_files, side_by_side
from laminar.errors.dag import RecoveryFailed
from laminar.errors.store import CheckpointCorrupt
from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.model.trace_name import own_traces
from laminar.store import EpochLog, ManifestStore, PendingLog, durable_files
from laminar.store.links import bring_durably

_PLAIN_EMISSION = {"mode": "update", "every_us": 0, "lateness_us": None, "late_to": None}


@dataclass(frozen=True, slots=True)
class Recovered:
    """A state in its place, and what is left to do once an engine runs on it."""

    metrics: DagRecoveryMetrics
    rebuild: tuple[str, ...] = ()
    """Views to fill anew."""


@dataclass(slots=True)
class _Choice:
    """A state to open with, and what has to be mended in it first."""

    manifest: Manifest
    checkpoint: DagCheckpointMetadata | None = None
    heal: dict[str, Path] = field(default_factory=dict)
    """Data file -> a good copy of it."""
    rebuild: tuple[str, ...] = ()


class DagRecoveryManager:
    """Opens a state directory.

    Args:
        root: the store's root.
        config: how.
    """

    def __init__(self, root: Path, config: RecoveryConfig | None = None) -> None:
        self._root = root.resolve()
        self.config = config or RecoveryConfig()
        self._manifests = ManifestStore(self._root)
        self._storage = CheckpointStorage(self._root, parallelism=self.config.parallelism)
        self._damaged: dict[str, str] = {}
        self._verified: dict[str, str | None] = {}
        self._bytes = 0

    def recover(self) -> Recovered:
        """Put the newest state that is whole into place.

        Raises:
            RecoveryFailed: there is none, or rows would be lost on the way; nothing was touched.
            UnsupportedFormat: another version wrote the state.
            StoreUnwritable: what has to be moved cannot be; the next opening goes on with it.
        """
        started = time.perf_counter()
        readable, unreadable = self._manifests.readable()
        self._damaged |= {str(path): error.reason for path, error in unreadable.items()}
        if not readable and not unreadable and not self._storage.ids():
            return Recovered(DagRecoveryMetrics(None, {}, 0, target=self._target))
        choice = self._choose(readable)
        self._require_log(choice.manifest)
        with durable_files.unwritable(self._root):
            placed, folder = self._put(choice, readable, list(unreadable))
            pushed, folder = self._heal_pushed(placed, folder)
        log = EpochLog(self._root)
        damaged = [*(Damage(*each) for each in self._damaged.items())]
        damaged += [Damage(*each.split(": ", 1)) for each in log.damaged]
        if log.damaged:
            folder = folder or self._folder()
            with durable_files.unwritable(self._root):
                aside.keep_log(self._root, folder)
            log.mend()
        log.close()
        found = choice.checkpoint
        metrics = DagRecoveryMetrics(
            checkpoint_id=found.checkpoint_id if found is not None else None,
            source_offsets=placed.offsets,
            nodes_restored=len(restored(placed)),
            epoch=placed.epoch,
            source="manifest" if found is None else "checkpoint",
            damaged=tuple(damaged),
            healed=tuple(sorted([*choice.heal, *pushed])),
            set_aside=None if folder is None else str(folder),
            verified_files=len(self._verified),
            verified_bytes=self._bytes,
            duration=time.perf_counter() - started,
            target=self._target,
        )
        return Recovered(metrics, placed.state.rebuild)

    @property
    def _target(self) -> float:
        return self.config.target_recovery_time

    # Choosing

    def _choose(self, readable: list[Manifest]) -> _Choice:
        stored = self._checkpoints()
        states: list[tuple[Manifest, DagCheckpointMetadata | None]] = [
            *((manifest, found) for found, manifest in stored),
            *((manifest, None) for manifest in readable),
        ]
        # Of a checkpoint and an epoch that are the same, the epoch comes first.
        states.sort(key=lambda each: (each[0].epoch, each[0].revision, each[1] is None))
        for manifest, found in reversed(states):
            choice = self._usable(manifest, found, stored)
            if choice is not None:
                return choice
        raise RecoveryFailed(self._told("no state is whole"), str(self._root))

    def _checkpoints(self) -> list[tuple[DagCheckpointMetadata, Manifest]]:
        found = []
        for each in self._storage.ids():
            try:
                found.append((self._storage.read(each), self._storage.manifest(each)))
            except CheckpointCorrupt as error:
                self._damaged[error.path] = error.reason
        return found

    def _usable(
        self,
        manifest: Manifest,
        found: DagCheckpointMetadata | None,
        stored: list[tuple[DagCheckpointMetadata, Manifest]],
    ) -> _Choice | None:
        bad = self._faults(manifest, found)
        if not bad:
            return _Choice(manifest, found)
        if found is not None:
            return None
        copies = {each.name: self._copy_of(each, stored) for each in bad}
        heal = {name: path for name, path in copies.items() if path is not None}
        left = [each for each in bad if each.name not in heal]
        views = rebuildable(manifest, {each.relation for each in left})
        return None if views is None else _Choice(manifest, None, heal, views)

    def _faults(self, manifest: Manifest, found: DagCheckpointMetadata | None) -> list[SegmentFile]:
        def place(name: str) -> Path:
            return self._root / name if found is None else self._storage.place(found, name)

        wanted = segment_files(manifest)
        unseen = [each for each in wanted if str(place(each.name)) not in self._verified]
        bad = faults(unseen, place, self.config.parallelism)
        for each in unseen:
            path, reason = place(each.name), bad.get(each)
            self._verified[str(path)] = reason
            if reason is not None:
                self._damaged[str(path)] = reason
            else:
                self._bytes += path.stat().st_size
        return [each for each in wanted if self._verified[str(place(each.name))] is not None]

    def _copy_of(
        self, file: SegmentFile, stored: list[tuple[DagCheckpointMetadata, Manifest]]
    ) -> Path | None:
        for found, _ in reversed(stored):
            path = self._storage.place(found, file.name)
            if path.exists() and fault(path, file.checksum) is None:
                return path
        return None

    def _require_log(self, chosen: Manifest) -> None:
        """Refuse to go back to a state from which the newest epoch cannot be reached again."""
        newest = self._manifests.last_number()
        if chosen.epoch >= newest:
            return
        log = EpochLog(self._root)
        reached = chosen.epoch + len(log.open_after(chosen.epoch))
        log.close()
        if reached < newest:
            raise RecoveryFailed(
                self._told(
                    f"epoch {chosen.epoch} is whole, but the log does not tell what epochs"
                    f" {reached + 1} to {newest} took"
                ),
                str(self._root),
            )

    def _told(self, fact: str) -> str:
        lines = [f"{path}: {reason}" for path, reason in self._damaged.items()]
        more = [f"and {len(lines) - 8} more"] if len(lines) > 8 else []
        return "\n    ".join([fact, *lines[:8], *more])

    # Putting into place

    def _put(
        self, choice: _Choice, readable: list[Manifest], unreadable: list[Path]
    ) -> tuple[Manifest, Path | None]:
        """Make the choice the newest epoch; each step may be repeated after a crash."""
        manifest, copies = choice.manifest, keeps_copies(choice.manifest)
        version = (manifest.epoch, manifest.revision)
        unusable = [each for each in readable if (each.epoch, each.revision) > version]
        folder = None
        if unusable or unreadable or choice.heal:
            folder = self._folder()
        if folder is not None:
            aside.keep_data(self._root, unusable, folder)
            self._heal(choice.heal, folder, copies=copies)
        if choice.checkpoint is not None:
            self._bring_back(choice.checkpoint, manifest)
        newest = max([*readable, manifest], key=lambda each: (each.epoch, each.revision))
        placed = reconciled(choice, newest)
        if placed is not manifest or choice.checkpoint is not None:
            placed = replace(placed, revision=self._manifests.next_revision(placed.epoch))
            self._manifests.commit(placed)
        durable_files.failpoint("recovery.before_aside")
        if folder is not None:
            paths = [self._manifests.path_of(each) for each in unusable]
            aside.move(self._root, [*paths, *unreadable], folder)
        durable_files.failpoint("recovery.after_aside")
        return placed, folder

    def _folder(self) -> Path:
        return aside.folder_for(self._root, f"damaged-epoch-{self._manifests.last_number()}")

    def _heal(self, good_ones: Mapping[str, Path], folder: Path, *, copies: bool) -> None:
        def heal(name: str) -> None:
            path = self._root / name
            if path.exists():
                aside.move(self._root, [path], folder)
            bring_durably(good_ones[name], path, copies=copies)

        side_by_side(heal, good_ones, self.config.parallelism)

    def _heal_pushed(self, placed: Manifest, folder: Path | None) -> tuple[list[str], Path | None]:
        """Verify the rows that were pushed and not read; take those that are damaged from copies.

        Damaged ones without a copy are reported and stay: whoever reads them hears of it.
        """
        healed = []
        for name, checksum in unread(self._root, placed).items():
            path = self._root / name
            reason = fault(path, checksum)
            if reason is None:
                continue
            self._damaged[str(path)] = reason
            copies = (self._storage.own_folder(each) / name for each in self._storage.complete())
            good = next((each for each in copies if fault(each, checksum) is None), None)
            if good is not None:
                folder = folder or self._folder()
                self._heal({name: good}, folder, copies=keeps_copies(placed))
                healed.append(name)
        return healed, folder

    def _bring_back(self, found: DagCheckpointMetadata, manifest: Manifest) -> None:
        bring_back(self._root, self._storage, found, manifest, self.config.parallelism)
        # The log says what these epochs took; their rows need not be read again, if they are whole.
        own = self._storage.own_folder(found)
        waiting = {}
        for epoch, entry in found.in_flight_by_epoch().items():
            told = {own / name: fault(own / name, each) for name, each in checksums(entry).items()}
            bad = {str(path): reason for path, reason in told.items() if reason is not None}
            self._damaged |= bad
            if not bad:
                waiting[epoch] = entry
        put_back(self._root, found.epoch, own, waiting, copies=keeps_copies(manifest))


def keeps_copies(manifest: Manifest) -> bool:
    """Whether checkpoints hold copies, so that damage to a live file leaves them whole.

    They stay so only if what comes from them is a copy again.
    """
    return manifest.state.settings.get("checkpoint_copies") == "on"


def unread(root: Path, manifest: Manifest) -> dict[str, str]:
    """Return file -> its checksum, of rows that were pushed and that no epoch has read."""
    pending = PendingLog(root)
    tables = [each["name"] for each in manifest.catalog if each["kind"] == "table"]
    ends = {name: manifest.offsets.get(name) or 0 for name in tables}
    return {
        each.path.relative_to(root).as_posix(): each.checksum
        for name, end in ends.items()
        if isinstance(end, int)
        for each in pending.after(name, end)
        if each.checksum is not None
    }


def damaged_manifests(root: Path) -> list[Path]:
    """Return the epochs that cannot be read."""
    return list(ManifestStore(root).readable()[1])


def bring_back(
    root: Path,
    storage: CheckpointStorage,
    found: DagCheckpointMetadata,
    manifest: Manifest,
    parallelism: int,
) -> None:
    """Give the files of a checkpoint their place among the live ones again, side by side."""
    copies = keeps_copies(manifest)

    def put(each: SegmentFile) -> None:
        path = root / each.name
        if fault(path, each.checksum) is not None:
            durable_files.remove(path, point="recovery")
            bring_durably(storage.place(found, each.name), path, copies=copies)

    side_by_side(put, segment_files(manifest), parallelism)


def restored(manifest: Manifest) -> frozenset[str]:
    """Return the tables and views whose state an epoch holds: rows, accumulators, an operator's.

    What is fused into its readers, or waits to be rebuilt, has none.
    """
    kept = {name for name, trace in manifest.traces.items() if trace.segments}
    names = (each["name"] for each in manifest.catalog)
    operators = manifest.state.operators
    return frozenset(name for name in names if own_traces(name, kept) or name in operators)


def reconciled(choice: _Choice, newest: Manifest) -> Manifest:
    """Return an older state under the newest definitions that are known.

    Views that were defined alike keep their rows; others are added to those to be rebuilt.
    """
    manifest = choice.manifest
    differs = changed(manifest.catalog, newest.catalog)
    gone = {each["name"] for each in manifest.catalog} - {each["name"] for each in newest.catalog}
    kinds = {each["name"]: each["kind"] for each in newest.catalog}
    for name in differs:
        if kinds[name] == "operator" and manifest.epoch < newest.epoch:
            raise RecoveryFailed(f'the state of the Python operator "{name}" is lost')
    waiting = manifest.state.rebuild
    rebuilt = {*waiting, *choice.rebuild, *(name for name in differs if kinds[name] == "view")}
    is_alike = manifest.state.schemas == newest.state.schemas
    if not gone and not differs and is_alike and rebuilt == set(waiting):
        return manifest
    return replace(
        manifest,
        traces=without(manifest.traces, {*rebuilt, *gone}),
        offsets={name: end for name, end in manifest.offsets.items() if name in kinds},
        catalog=newest.catalog,
        state=replace(
            manifest.state,
            # What a user has set stays as it was last known.
            paused=newest.state.paused,
            settings=newest.state.settings,
            sinks=newest.state.sinks,
            functions=newest.state.functions,
            schemas=newest.state.schemas,
            rebuild=tuple(name for name in kinds if name in rebuilt),
        ),
    )


def rebuildable(manifest: Manifest, relations: Iterable[str]) -> tuple[str, ...] | None:
    """Return the views that damaged traces belong to, if all of them follow from their inputs.

    Not so a table, nor the output of a Python operator, nor a view whose rows depend on when they
    were computed: its late rows would no longer be late.
    """
    left = set(relations)
    views: list[str] = []
    for each in manifest.catalog:
        own = set(own_traces(each["name"], left))
        if own:
            if not _follows(each, manifest.state):
                return None
            views.append(each["name"])
            left -= own
    return tuple(views) if not left else None


def _follows(definition: Mapping[str, Any], state: EngineState) -> bool:
    if definition["kind"] != "view" or definition["name"] in state.behind:
        return False
    emission = definition.get("emission") or _PLAIN_EMISSION
    clocks = state.clocks
    noted = {*clocks.emitted_at, *clocks.aged_to, *clocks.late}
    timed = bool(own_traces(definition["name"], noted))
    return dict(emission) == _PLAIN_EMISSION and not timed
