"""One file per committed epoch. Its appearance is the commit; what no kept one names is garbage."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from laminar.errors.store import EpochExists, EpochNotFound, ManifestCorrupt
from laminar.model.trace import Manifest
from laminar.store import durable_files
from laminar.store.durable_files import Unsealed, seal, unseal
from laminar.store.pending import PENDING
from laminar.store.segments import DATA

MANIFESTS = "manifests"
"""The folder of all manifests under the store's root."""

_NAME = re.compile(r"(\d{12})(?:-(\d{6}))?\.json")

_Version = tuple[int, int]  # epoch, revision


class ManifestStore:
    """The versions of a store. An epoch is committed if and only if its manifest is there.

    Anybody reads; one thread at a time commits, prunes or asks for live files: the writer.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root.resolve() / MANIFESTS
        self._named: Counter[str] | None = None
        """Data file -> how many manifests name it; counted when first asked for."""

    def commit(self, manifest: Manifest) -> None:
        """Make an epoch visible and durable, with one write.

        Raises:
            EpochExists: that epoch is committed already, here or by another process.
            StoreUnwritable: the disk refuses; nothing was committed.
        """
        try:
            path = self._path((manifest.epoch, manifest.revision))
            durable_files.write_atomic(path, seal(manifest.to_json()), point="manifest")
        except FileExistsError as error:
            raise EpochExists(manifest.epoch) from error
        if self._named is not None:
            self._named.update(manifest.files)

    def latest(self) -> Manifest | None:
        """Return the newest epoch; None if there is none.

        Raises:
            ManifestCorrupt: it is damaged. Going back to an older one is for the user to decide.
        """
        versions = self._versions()
        return self._read(versions[-1]) if versions else None

    def newest(self) -> tuple[int, int] | None:
        """Return the newest epoch and its revision, without reading it."""
        versions = self._versions()
        return versions[-1] if versions else None

    def get(self, epoch: int) -> Manifest:
        """Return the manifest of an epoch, in its last revision.

        Raises:
            EpochNotFound: it is not kept, or not committed.
            ManifestCorrupt: it is damaged.
        """
        versions = self._versions()
        found = [version for version in versions if version[0] == epoch]
        if not found:
            ends = (versions[0][0], versions[-1][0]) if versions else (None, None)
            raise EpochNotFound(epoch, *ends)
        return self._read(found[-1])

    def epochs(self) -> tuple[int, ...]:
        """Return the epochs that are kept, oldest first."""
        return tuple(dict.fromkeys(epoch for epoch, _ in self._versions()))

    def readable(self) -> tuple[list[Manifest], dict[Path, ManifestCorrupt]]:
        """Return the versions that can be read, oldest first, and what is wrong with the others."""
        found: list[Manifest] = []
        damaged: dict[Path, ManifestCorrupt] = {}
        for version in self._versions():
            try:
                found.append(self._read(version))
            except ManifestCorrupt as error:
                damaged[self._path(version)] = error
        return found, damaged

    def path_of(self, manifest: Manifest) -> Path:
        """Return where a version is, or would be."""
        return self._path((manifest.epoch, manifest.revision))

    def last_number(self) -> int:
        """Return the highest epoch that a file is named after, readable or not."""
        return max((epoch for epoch, _ in self._versions()), default=0)

    def next_revision(self, epoch: int) -> int:
        """Return the first revision of an epoch that no file is named after."""
        return max((rev for each, rev in self._versions() if each == epoch), default=-1) + 1

    def _versions(self) -> tuple[_Version, ...]:
        names = (_NAME.fullmatch(path.name) for path in durable_files.listed(self._folder))
        return tuple(sorted((int(name[1]), int(name[2] or 0)) for name in names if name))

    def live_files(self) -> frozenset[str]:
        """Return the data files that some kept epoch names.

        Raises:
            ManifestCorrupt: one is damaged, so it cannot be known which files it needs.
        """
        return frozenset(self._references())

    def prune(self, keep: int, pinned: Collection[int] = ()) -> frozenset[str]:
        """Forget all but the newest `keep` epochs and the pinned ones; the newest always stays.

        Returns:
            The data files that no kept epoch names any more, for `discard`. A crash
            before they are removed is harmless: the next sweep finds them.
        """
        named = self._references()
        versions = self._versions()
        last = dict(versions)  # the last revision of each epoch
        kept = {*list(last)[-max(keep, 1) :], *pinned}
        expired: set[str] = set()
        for epoch, revision in versions:
            if epoch not in kept or revision != last[epoch]:
                expired |= self._forget((epoch, revision), named)
        return frozenset(expired)

    def _forget(self, version: _Version, named: Counter[str]) -> set[str]:
        needed = self._read(version).files
        path = self._path(version)
        durable_files.remove(path, point="manifest")
        named.subtract(needed)
        freed = {file for file in needed if named[file] == 0}
        for file in freed:
            del named[file]
        return freed

    def _references(self) -> Counter[str]:
        if self._named is None:
            # Counting keeps pruning one epoch as cheap as reading one manifest.
            self._named = Counter(
                file for version in self._versions() for file in self._read(version).files
            )
        return self._named

    def _read(self, version: _Version) -> Manifest:
        path = self._path(version)
        manifest = _decode(path, durable_files.read(path))
        if (manifest.epoch, manifest.revision) != version:
            raise ManifestCorrupt(str(path), f"it describes epoch {manifest.epoch}")
        return manifest

    def _path(self, version: _Version) -> Path:
        epoch, revision = version
        return self._folder / f"{epoch:012d}{f'-{revision:06d}' if revision else ''}.json"


def _decode(path: Path, data: bytes) -> Manifest:
    try:
        return Manifest.from_json(unseal(data))
    except Unsealed as error:
        raise ManifestCorrupt(str(path), str(error)) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ManifestCorrupt(str(path), f"it cannot be understood: {error!r}") from error


def garbage(root: Path, live_files: Collection[str]) -> list[Path]:
    """Return the files under a store that nothing refers to.

    Those are data files that are not live, and files whose writing was cut short. Manifests and
    rows that wait to be read are never among them.
    """
    root = root.resolve()
    live = frozenset(live_files)
    dead = [path for path in _walk(root / DATA) if path.relative_to(root).as_posix() not in live]
    for folder in (root / MANIFESTS, root / PENDING):
        dead += [path for path in _walk(folder) if path.name.endswith(durable_files.TEMP_SUFFIX)]
    return sorted(dead)


def sweep(root: Path, live_files: Collection[str]) -> list[Path]:
    """Remove the garbage and return it.

    Only while nobody writes, as when a store is opened: files of an epoch in the making are not
    live yet. While it runs, `discard` removes what `ManifestStore.prune` returned.
    """
    dead = garbage(root, live_files)
    _remove(dead)
    _remove_empty_folders(root.resolve() / DATA)
    return dead


def discard(root: Path, names: Iterable[str]) -> None:
    """Remove data files by name, such as those that expired or of an epoch that was given up."""
    _remove(root / name for name in names)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        durable_files.remove(path, point="segment")


def _remove_empty_folders(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        if Path(folder) != top:
            # Not empty is the usual case.
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def _walk(top: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(top):
        yield from (Path(folder, name) for name in names)
