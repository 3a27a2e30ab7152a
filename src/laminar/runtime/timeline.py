"""The committed epochs of a database, and the one that readers see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from laminar.errors import NotSupported
from laminar.model.trace import Manifest, Trace
from laminar.store import ManifestStore, discard, sweep


class Timeline:
    """One writer moves it forward; `manifest` is where it stands."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._store = ManifestStore(root)
        self.manifest = self._store.latest() or Manifest(0, {}, {}, [], {}, {}, "", revision=-1)
        self.retained = 64
        """How many past epochs can be read again."""
        self.pinned: frozenset[int] = frozenset()
        """Epochs that somebody still has to read, however old."""
        sweep(root, self._store.live_files())

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
        state: Mapping[str, Any],
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
        self._store.commit(manifest)
        self.manifest = manifest
        discard(self._root, self._store.prune(self.retained, self.pinned))

    def get(self, epoch: int) -> Manifest:
        """Return an epoch in its last revision, whatever was defined then."""
        return self._store.get(epoch)

    def kept(self) -> list[Manifest]:
        """Return all epochs that can be read, oldest first."""
        older = [self._store.get(each) for each in self._store.epochs() if each < self.epoch]
        return [*older, self.manifest] if self.manifest.revision >= 0 else []

    def at(self, epoch: int, names: Iterable[str]) -> Manifest:
        """Return an older epoch, if the named relations were defined then as they are now."""
        manifest = self._store.get(epoch)
        then, now = _by_name(manifest), _by_name(self.manifest)
        for name in names:
            if then.get(name) != now.get(name):
                raise NotSupported(
                    f'reading "{name}" as of epoch {epoch}, when it was not what it is now',
                    "read an epoch after its definition",
                )
        return manifest


_HOW_STORED = ("kind", "columns", "query", "refresh_policy", "reads")
"""The parts of a definition that decide what its traces hold."""


def _by_name(manifest: Manifest) -> dict[str, Any]:
    # Compared as JSON values: a definition that was read back has lists for tuples.
    return {
        each["name"]: {key: _plain(each.get(key)) for key in _HOW_STORED}
        for each in manifest.catalog
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
