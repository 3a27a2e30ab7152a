"""Going back to a checkpoint on purpose.

Time does not run backwards: what comes of it is a new epoch, the next one, that holds what the
checkpoint's epoch held. So whoever follows the epochs (sinks, subscriptions, readers of the past)
sees one more change and nothing twice. The state as it was before is set aside whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from laminar.checkpoint import aside
from laminar.checkpoint.fingerprint import changed, without
from laminar.checkpoint.in_flight import checksums, logged, put_back
from laminar.checkpoint.metadata import DagCheckpointMetadata
from laminar.checkpoint.recovery import bring_back, keeps_copies
from laminar.checkpoint.storage import CheckpointStorage
from laminar.checkpoint.verify import fault
from laminar.errors.dag import NoCheckpointFound, RecoveryFailed
from laminar.model.state import EngineState, UnfinishedRestore
from laminar.model.trace import Manifest
from laminar.store import EpochLog, ManifestStore, PendingLog, durable_files
from laminar.store.links import bring_durably


@dataclass(frozen=True, slots=True)
class Restored:
    """A checkpoint that is the newest epoch now."""

    checkpoint_id: int
    epoch: int
    """The epoch that holds the checkpoint's content again."""
    set_aside: Path
    """A state directory of its own, with all that was there before."""
    manifest: Manifest
    rebuild: tuple[str, ...] = ()


def load(storage: CheckpointStorage, checkpoint_id: int) -> tuple[DagCheckpointMetadata, Manifest]:
    """Return a checkpoint that is whole.

    Raises:
        NoCheckpointFound: there is none of that number.
        RecoveryFailed: some of it is damaged.
    """
    if checkpoint_id not in storage.ids():
        known = ", ".join(map(str, storage.ids())) or "none"
        raise NoCheckpointFound(f"{storage.folder}: {checkpoint_id}; there are: {known}")
    found = storage.read(checkpoint_id)
    manifest = storage.manifest(checkpoint_id)
    for each, reason in storage.faults(found, manifest).items():
        raise RecoveryFailed(f"checkpoint {checkpoint_id}: {each.name}: {reason}")
    own = dict(found.pushed_files)
    for entry in found.in_flight.values():
        own |= checksums(entry)
    for name, checksum in own.items():
        said = fault(storage.own_folder(found) / name, checksum)
        if said is not None:
            raise RecoveryFailed(f"checkpoint {checkpoint_id}: {name}: {said}")
    return found, manifest


def go_back(
    root: Path,
    storage: CheckpointStorage,
    manifests: ManifestStore,
    checkpoint: tuple[DagCheckpointMetadata, Manifest],
    *,
    state: EngineState | None = None,
    catalog: Sequence[Mapping[str, Any]] | None = None,
) -> Restored:
    """Make a checkpoint the newest epoch; one write decides, and `finish` tidies up after it.

    Args:
        root: the store's root.
        storage: where checkpoints are.
        manifests: where epochs are.
        checkpoint: what to go back to, verified.
        state: what to remember instead of what was remembered then.
        catalog: definitions to keep instead of those of the checkpoint.

    Raises:
        StoreUnwritable: the disk refuses; the state is as it was.
    """
    found, manifest = checkpoint
    root = root.resolve()
    head = manifests.last_number()
    durable_files.failpoint("restore.before_aside")
    kept, _ = manifests.readable()
    # What was in flight follows, under the numbers that come next.
    waiting = found.in_flight_by_epoch(head + 1 - found.epoch)
    with durable_files.unwritable(root):
        folder = aside.whole_state(root, kept, f"before-restore-epoch-{head}")
        durable_files.failpoint("restore.after_aside")
        bring_back(root, storage, found, manifest, storage.parallelism)
        copies = keeps_copies(manifest)
        _bring_back_pushed(root, storage, found, copies=copies)
        put_back(root, head + 1, storage.own_folder(found), waiting, copies=copies)
        durable_files.failpoint("restore.after_bring")
    defined = manifest.catalog if catalog is None else catalog
    names = {each["name"]: each["kind"] for each in defined}
    rebuild = tuple(n for n in changed(manifest.catalog, defined) if names[n] == "view")
    absent = {each["name"] for each in manifest.catalog} - set(names)
    then = manifest.state if state is None else state
    placed = replace(
        manifest,
        epoch=head + 1,
        revision=0,
        traces=without(manifest.traces, {*rebuild, *absent}),
        offsets={name: end for name, end in manifest.offsets.items() if name in names},
        catalog=defined,
        committed_at=datetime.now(UTC).isoformat(),
        state=replace(
            then,
            report={},
            # Event time stands where it stood, under the new number.
            cuts={**then.cuts, head + 1: then.cuts.get(manifest.epoch, manifest.watermarks)},
            rebuild=rebuild,
            restored=UnfinishedRestore(
                checkpoint=found.checkpoint_id,
                pushed=dict(found.pushed),
                last={name: PendingLog(root).newest(name) for name in found.pushed},
                in_flight=tuple(
                    {"epoch": epoch, **{key: entry[key] for key in _LOGGED if key in entry}}
                    for epoch, entry in sorted(waiting.items())
                ),
            ),
        ),
    )
    manifests.commit(placed)
    durable_files.failpoint("restore.after_commit")
    return Restored(found.checkpoint_id, placed.epoch, folder, placed, rebuild)


_LOGGED = ("ranges", "now_ms", "said", "skipped")
"""What the log says of an epoch."""


def finish(manifest: Manifest, pending: PendingLog, log: EpochLog) -> None:
    """Remove what came after the checkpoint, which was set aside, and log what was in flight.

    May be repeated after a crash.
    """
    left = manifest.state.restored
    if left is None:
        return
    # Later ones stand on a history that is gone.
    log.withdraw(manifest.epoch + 1)
    for each in left.in_flight:
        entry = logged(each["epoch"], each)
        log.begin(entry.epoch, entry.ranges, entry.now_ms, entry.said, entry.skipped)
    for table, last in left.last.items():
        pending.drop_through(table, manifest.offsets.get(table) or 0)
        pending.remove_between(table, left.pushed.get(table, 0) + 1, last)
    durable_files.failpoint("restore.after_finish")


def numbers(manifest: Manifest) -> dict[str, int]:
    """Return table -> the last number of pushed rows that must not be given out again."""
    last = {} if manifest.state.restored is None else manifest.state.restored.last
    read = {name: end for name, end in manifest.offsets.items() if isinstance(end, int)}
    return {name: max(read.get(name, 0), last.get(name, 0)) for name in {*read, *last}}


def _bring_back_pushed(
    root: Path, storage: CheckpointStorage, found: DagCheckpointMetadata, *, copies: bool
) -> None:
    for name in found.pushed_files:
        path = root / name
        if not path.exists():
            bring_durably(storage.own_folder(found) / name, path, copies=copies)
