"""Checkpoints on disk.

- `<root>/checkpoints/<id>/metadata.json`: its appearance completes the checkpoint.
- `<root>/checkpoints/<id>/manifest.json`: the epoch that it holds.
- `<root>/checkpoints/<id>/pending/...`: rows that were pushed and not read, as they were pushed.
- `<root>/checkpoints/<id>/data/...`: rows of epochs in flight, for unaligned checkpoints.
- `<root>/checkpoints/<pool>/data/...`: its segments. Incremental checkpoints share the pool `links`
  (or `copies`); one that is not has a pool of its own, in its own folder.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from laminar.checkpoint.config import DagCheckpointConfig
from laminar.checkpoint.in_flight import Overtaken, checksums
from laminar.checkpoint.metadata import DagCheckpointMetadata
from laminar.checkpoint.verify import SegmentFile, fault, faults, segment_files
from laminar.errors.dag import NoCheckpointFound
from laminar.errors.store import CheckpointCorrupt, SegmentCorrupt
from laminar.model.trace import Manifest
from laminar.store import durable_files
from laminar.store.durable_files import Unsealed, seal, unseal
from laminar.store.links import bring

CHECKPOINTS = "checkpoints"
"""The folder of all checkpoints under the store's root."""

LINKS, COPIES = "links", "copies"
_METADATA, _MANIFEST = "metadata.json", "manifest.json"


class CheckpointStorage:
    """The complete checkpoints of a database; one writer."""

    def __init__(self, root: Path, *, parallelism: int = 2) -> None:
        self._root = root.resolve()
        self.folder = self._root / CHECKPOINTS
        self.parallelism = parallelism

    def ids(self) -> tuple[int, ...]:
        """Return the numbers of complete checkpoints, oldest first."""
        return tuple(each for each in self._numbers() if (self._of(each) / _METADATA).exists())

    def next_id(self) -> int:
        """Return a number that no checkpoint has had, complete or not."""
        return max(self._numbers(), default=0) + 1

    def read(self, checkpoint_id: int) -> DagCheckpointMetadata:
        """Return what is known of a checkpoint.

        Raises:
            NoCheckpointFound: there is none of that number.
            CheckpointCorrupt: its description is damaged.
        """
        data = self._unsealed(checkpoint_id, _METADATA)
        try:
            found = DagCheckpointMetadata.from_json(data)
        except (KeyError, TypeError, ValueError) as error:
            raise self._corrupt(checkpoint_id, f"it cannot be understood: {error!r}") from error
        if found.checkpoint_id != checkpoint_id:
            raise self._corrupt(checkpoint_id, f"it describes checkpoint {found.checkpoint_id}")
        return found

    def manifest(self, checkpoint_id: int) -> Manifest:
        """Return the epoch that a checkpoint holds."""
        data = self._unsealed(checkpoint_id, _MANIFEST)
        try:
            return Manifest.from_json(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._corrupt(checkpoint_id, f"it cannot be understood: {error!r}") from error

    def place(self, found: DagCheckpointMetadata, name: str) -> Path:
        """Return where a checkpoint keeps a data file."""
        return self.folder / found.pool / name

    def own_folder(self, found: DagCheckpointMetadata) -> Path:
        """Return where a checkpoint keeps what is its alone: pushed rows, and those in flight."""
        return self._of(found.checkpoint_id)

    def complete(self) -> list[DagCheckpointMetadata]:
        """Return all checkpoints of which it is known what they need, oldest first."""
        found = []
        for each in self.ids():
            # A damaged one is not lost sight of: recovery reports it, and sweeping spares it.
            with contextlib.suppress(CheckpointCorrupt):
                self.manifest(each)
                found.append(self.read(each))
        return found

    def faults(
        self, found: DagCheckpointMetadata, manifest: Manifest, parallelism: int | None = None
    ) -> dict[SegmentFile, str]:
        """Return what is wrong with the files of a checkpoint."""
        wanted = segment_files(manifest)
        return faults(wanted, lambda n: self.place(found, n), parallelism or self.parallelism)

    def save(
        self,
        draft: DagCheckpointMetadata,
        manifest: Manifest,
        config: DagCheckpointConfig,
        pushed: Iterable[str] = (),
        overtaken: Iterable[Overtaken] = (),
    ) -> DagCheckpointMetadata:
        """Keep an epoch; on return it is durable, verified and complete.

        Args:
            draft: what is known of it already.
            manifest: the epoch.
            config: how to keep it.
            pushed: files of rows that were pushed by then and that no epoch had read.
            overtaken: epochs in flight, to be run again from what is kept here.

        Raises:
            SegmentGone: a segment is not there any more, because a newer revision has replaced it.
            SegmentCorrupt: a segment does not hold what was written.
            StoreUnwritable: the disk refuses; nothing of the checkpoint stays.
        """
        started = time.perf_counter()
        own = self._of(draft.checkpoint_id)
        shared = COPIES if config.copies else LINKS
        pool = shared if config.incremental else own.name
        wanted = segment_files(manifest)
        known = self._known(pool) if config.incremental else frozenset()
        new = [each for each in wanted if each.name not in known]
        try:
            with durable_files.unwritable(own):
                durable_files.make_dir(own)
                durable_files.failpoint("checkpoint.before_files")
            self._keep([each.name for each in new], pool, copies=config.copies)
            self._keep(pushed, own.name, copies=config.copies)
            in_flight = self._keep_in_flight(own, list(overtaken), copies=config.copies)
            durable_files.failpoint("checkpoint.after_files")
            bad = faults(new, lambda n: self.folder / pool / n, self.parallelism)
            for each, reason in bad.items():
                raise SegmentCorrupt(str(self._root / each.name), reason)
            durable_files.write_atomic(
                own / _MANIFEST, seal(manifest.to_json()), point="checkpoint_state"
            )
            sizes = {each.name: self._size(pool, each.name) for each in wanted}
            done = replace(
                draft,
                in_flight=in_flight,
                pushed_files={name: durable_files.checksum(own / name) for name in pushed},
                duration=round(draft.duration + time.perf_counter() - started, 6),
                pool=pool,
                files=len(wanted),
                bytes=sum(sizes.values()),
                new_files=len(new),
                new_bytes=sum(sizes[each.name] for each in new),
            )
            durable_files.write_atomic(own / _METADATA, seal(done.to_json()), point="checkpoint")
        except Exception:
            durable_files.remove_tree(own, point="checkpoint")
            raise
        return done

    def retain(self, count: int, pinned: Collection[int] = ()) -> list[int]:
        """Forget all but the newest checkpoints and the pinned ones; return those forgotten."""
        ids = self.ids()
        gone = [each for each in ids[:-count] if each not in pinned]
        for each in gone:
            # The description first: what has lost it is no checkpoint any more, only debris.
            durable_files.remove_quietly(self._of(each) / _METADATA, point="checkpoint")
        if gone:
            self.sweep()
        return gone

    def sweep(self) -> None:
        """Remove what no complete checkpoint needs, such as the rest of one that was cut short.

        One with a damaged description keeps everything: nobody knows what it needs.
        """
        if not self.folder.is_dir():
            return
        whole = set(self.ids())
        for each in self._numbers():
            if each not in whole:
                durable_files.remove_tree(self._of(each), point="checkpoint")
        if len(self.complete()) < len(whole):
            return
        for pool in (LINKS, COPIES):
            names = self._known(pool)
            top = self.folder / pool
            for folder, _, found in os.walk(top, topdown=False):
                for name in found:
                    path = Path(folder, name)
                    if path.relative_to(top).as_posix() not in names:
                        durable_files.remove_quietly(path, point="checkpoint_file")

    def _known(self, pool: str) -> frozenset[str]:
        """Return the data files in a pool that complete checkpoints need."""
        ids = [each.checkpoint_id for each in self.complete() if each.pool == pool]
        return frozenset(name for each in ids for name in self.manifest(each).files)

    def _keep(self, names: Iterable[str], pool: str, *, copies: bool) -> None:
        names = list(names)
        with durable_files.unwritable(self.folder / pool):
            folders = {(self.folder / pool / name).parent for name in names}
            for folder in folders:
                durable_files.make_dir(folder)
            with ThreadPoolExecutor(self.parallelism) as threads:
                list(threads.map(lambda name: self._bring(name, pool, copies=copies), names))
            for folder in folders:
                durable_files.sync_dir(folder)

    def _keep_in_flight(
        self, own: Path, overtaken: list[Overtaken], *, copies: bool
    ) -> dict[str, Any]:
        """Keep the rows of epochs in flight; return what the description says of them."""
        entries: dict[str, Any] = {}
        for each in overtaken:
            entry, beside = each.kept()
            self._keep(each.files, own.name, copies=copies)
            for name, data in beside.items():
                durable_files.write_atomic(own / name, data, point="checkpoint_ahead")
            entries[str(each.logged.epoch)] = entry
        for name, checksum in ((n, c) for e in entries.values() for n, c in checksums(e).items()):
            if (reason := fault(own / name, checksum)) is not None:
                raise SegmentCorrupt(str(own / name), reason)
        return entries

    def _bring(self, name: str, pool: str, *, copies: bool) -> None:
        bring(self._root / name, self.folder / pool / name, copies=copies)

    def _size(self, pool: str, name: str) -> int:
        return (self.folder / pool / name).stat().st_size

    def _unsealed(self, checkpoint_id: int, name: str) -> dict[str, object]:
        path = self._of(checkpoint_id) / name
        try:
            data = durable_files.read(path)
        except FileNotFoundError:
            if name == _METADATA:
                raise NoCheckpointFound(str(path.parent)) from None
            raise self._corrupt(checkpoint_id, f"{name} is missing") from None
        try:
            found: dict[str, object] = unseal(data)
        except Unsealed as error:
            raise self._corrupt(checkpoint_id, f"{name}: {error}") from error
        return found

    def _corrupt(self, checkpoint_id: int, reason: str) -> CheckpointCorrupt:
        return CheckpointCorrupt(checkpoint_id, str(self._of(checkpoint_id)), reason)

    def _numbers(self) -> list[int]:
        names = (path.name for path in durable_files.listed(self.folder))
        return sorted(int(name) for name in names if name.isdecimal())

    def _of(self, checkpoint_id: int) -> Path:
        return self.folder / f"{checkpoint_id:012d}"
