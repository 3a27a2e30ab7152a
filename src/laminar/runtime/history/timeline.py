"""The committed epochs of a database, and the one that readers see."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laminar.checkpoint.fingerprint import stored_otherwise
from laminar.errors import EpochNotFound, ManifestCorrupt, NotSupported, StoreUnwritable
from laminar.errors.secrets import traceback_of
from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Trace
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.scheduling.view_progress import ViewProgress
from laminar.store import ManifestStore, discard, sweep

if TYPE_CHECKING:
    from laminar.runtime.catalog.storage_plan import StoragePlan


_LOG = logging.getLogger("laminar.store")
_TRIES = 10
"""How often a manifest is looked for that another process replaces at the same time."""
_NOTHING = Manifest(0, {}, {}, [], {}, EngineState(), "", revision=-1)
"""What stands before the first commit."""

_REMEMBERED = 8
"""So many past epochs are kept in memory, for those who follow closely."""


def after_commit(run: Callable[[], object]) -> None:
    """Run what follows from a commit.

    That has happened, so nothing that goes wrong here may look as if it had not.
    """
    try:
        run()
    except Exception as error:
        _LOG.error("an epoch is committed; what follows from it failed: %s", traceback_of(error))


class Timeline:
    """One writer moves it forward; `manifest` is where it stands."""

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self._root = root
        self.store = ManifestStore(root)
        self.manifest = self._latest() or _NOTHING
        self.retained = 64
        """How many past epochs can be read again."""
        self.pinned: frozenset[int] = frozenset()
        """Epochs that somebody still has to read, however old."""
        self._recent: dict[int, Manifest] = {}
        """Past epochs that are pinned, as far as they are in memory."""
        if not read_only:
            sweep(root, self.store.live_files())

    def refresh(self) -> bool:
        """Move to what another process has committed last; say whether that is something new."""
        newest = self.store.newest()
        if newest in (None, (self.manifest.epoch, self.manifest.revision)):
            return False
        found = self._latest()
        self.manifest = found or self.manifest
        return found is not None

    def _latest(self) -> Manifest | None:
        for _ in range(_TRIES):
            # It may be replaced by a newer revision between being listed and read.
            with suppress(FileNotFoundError):
                return self.store.latest()
        return None

    @property
    def epoch(self) -> int:
        """The newest committed epoch; 0 before the first."""
        return self.manifest.epoch

    def commit(
        self,
        epoch: int,
        *,
        traces: Mapping[str, Trace],
        offsets: Mapping[str, Any],
        catalog: Sequence[Mapping[str, Any]],
        state: EngineState,
        watermarks: Mapping[str, int],
    ) -> None:
        """Make an epoch, or a new revision of the current one, visible with one write."""
        revision = self.manifest.revision + 1 if epoch == self.manifest.epoch else 0
        manifest = Manifest(
            epoch=epoch,
            revision=revision,
            traces=traces,
            offsets=offsets,
            catalog=catalog,
            watermarks=watermarks,
            state=state,
            committed_at=datetime.now(UTC).isoformat(),
        )
        self.store.commit(manifest)
        before, self.manifest = self.manifest, manifest
        after_commit(lambda: self._remember(before))
        after_commit(self._tidy_up)

    def _remember(self, before: Manifest) -> None:
        """Keep an epoch in memory that is over; only one that stays on disk, too."""
        known = self._recent
        if before.epoch < self.epoch and before.revision >= 0:
            known = {**known, before.epoch: before}
        newest = list(known.items())[-_REMEMBERED:]
        self._recent = {epoch: each for epoch, each in newest if epoch in self.pinned}

    def _tidy_up(self) -> None:
        """Let go of epochs that nobody needs; what cannot be removed stays, and does no harm."""
        try:
            discard(self._root, self.store.prune(self.retained, self.pinned))
        except (StoreUnwritable, ManifestCorrupt) as error:
            _LOG.warning("old epochs cannot be removed: %s", error)

    def adopt(self, manifest: Manifest) -> None:
        """Go on from an epoch that was committed beside this timeline, by a restore."""
        self.manifest = manifest
        self._recent = {}

    def kept(self) -> list[Manifest]:
        """Return all epochs that can be read, oldest first."""
        if self.manifest.revision < 0:
            return []
        older = []
        for each in self.store.epochs():
            # A writer beside us may let go of it between looking and reading.
            with suppress(EpochNotFound):
                older += [self.get(each)] if each < self.epoch else []
        return [*older, self.manifest]

    def epochs(self) -> tuple[int, ...]:
        """Return the numbers of all epochs that can be read, oldest first."""
        return self.store.epochs()

    def get(self, epoch: int) -> Manifest:
        """Return an epoch as it was committed last; raise if it is not kept."""
        if (known := self._recent.get(epoch)) is not None:
            return known
        for _ in range(_TRIES):
            # A writer beside us may put a newer revision in its place, or remove it for good.
            with suppress(FileNotFoundError):
                return self.store.get(epoch)
        raise EpochNotFound(epoch, None, None)

    def at(self, epoch: int, names: Iterable[str]) -> Manifest:
        """Return an older epoch, if the named relations were defined then as they are now."""
        manifest = self.get(epoch)
        if manifest.catalog == self.manifest.catalog:
            return manifest
        differs = stored_otherwise(manifest.catalog, self.manifest.catalog)
        for name in names:
            if name in differs:
                raise NotSupported(
                    f'reading "{name}" as of epoch {epoch}, when it was not what it is now',
                    "read an epoch after its definition",
                )
        return manifest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A committed epoch and the definitions it was committed with."""

    manifest: Manifest
    catalog: Catalog

    def upstream(self, names: list[str]) -> list[str]:
        """Return the names and all that the views among them read, however far."""
        registry = self.catalog.registry
        above = {
            each
            for name in names
            if name in self.catalog.programs
            for each in registry.all_dependencies(name)
        }
        return [*names, *sorted(above - set(names))]

    def reach(self, manifest: Manifest, names: Iterable[str]) -> int:
        """Return the newest epoch that relations have in a manifest of these definitions.

        Raises:
            NoCommonEpoch: a view began after the epoch that another one is at.
        """
        progress, wanted = ViewProgress.from_state(manifest.state), list(names)
        at = progress.reach(wanted, manifest.epoch)
        if at < manifest.epoch:
            progress.require(self.upstream(wanted), at, wanted)
        return at

    def relations_at(self, manifest: Manifest) -> StoragePlan:
        """Return the physical graph as it was stored in a manifest of these definitions."""
        relations = self.catalog.relations
        return relations if manifest is self.manifest else relations.stored_in(manifest)
