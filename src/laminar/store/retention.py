"""Removing what no kept epoch needs, and nothing else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from laminar.store import durable_files
from laminar.store.manifests import MANIFESTS
from laminar.store.pending import PENDING
from laminar.store.segments import DATA


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
