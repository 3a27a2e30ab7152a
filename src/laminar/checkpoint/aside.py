"""Setting state aside: nothing that was committed is ever deleted because of a recovery."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from laminar.checkpoint.in_flight import IN_FLIGHT
from laminar.model.trace import Manifest
from laminar.store import durable_files
from laminar.store.cursors import SINKS, SUBSCRIPTIONS
from laminar.store.links import bring
from laminar.store.manifests import MANIFESTS
from laminar.store.pending import PENDING
from laminar.store.wal import WAL

SET_ASIDE = "set_aside"
"""The folder of all that was set aside, under the store's root."""

_NUMBER = re.compile(r"(\d+)-.*")


def folder_for(root: Path, why: str) -> Path:
    """Return a folder that does not exist yet, numbered and named after why it is needed."""
    top = root / SET_ASIDE
    names = [path.name for path in durable_files.listed(top)]
    taken = [int(found[1]) for name in names if (found := _NUMBER.fullmatch(name))]
    return top / f"{max(taken, default=0) + 1:04d}-{why}"


def whole_state(root: Path, manifests: Iterable[Manifest], why: str) -> Path:
    """Give all that makes up the current state a second place; return it.

    What comes of it is a state directory of its own that can be opened. Files that are replaced
    later are copied, all others linked.
    """
    target = folder_for(root, why)
    _bring(root, _files(root, MANIFESTS, PENDING, IN_FLIGHT), target)
    keep_log(root, target)
    _bring(root, _files(root, SINKS, SUBSCRIPTIONS), target, copies=True)
    keep_data(root, manifests, target)
    return target


def keep_log(root: Path, target: Path) -> None:
    """Copy the log of epochs, before it is written anew."""
    _bring(root, _files(root, WAL), target, copies=True)


def keep_data(root: Path, manifests: Iterable[Manifest], target: Path) -> None:
    """Give the data files of epochs a second place; those that are gone are left out."""
    names = sorted({name for each in manifests for name in each.files})
    _bring(root, [name for name in names if (root / name).exists()], target)


def move(root: Path, paths: Iterable[Path], target: Path) -> None:
    """Move files out of the way, each to the same place below a folder."""
    for path in paths:
        _bring(root, [path.relative_to(root).as_posix()], target)
        durable_files.remove(path, point="aside")
        durable_files.sync_dir(path.parent)


def _files(root: Path, *tops: str) -> list[str]:
    paths = [path for top in tops for path in sorted((root / top).rglob("*")) if path.is_file()]
    return [path.relative_to(root).as_posix() for path in paths]


def _bring(root: Path, names: Iterable[str], target: Path, *, copies: bool = False) -> None:
    """Give files a second place; on return the names there survive a crash."""
    places = [(root / name, target / name) for name in names]
    for source, place in places:
        durable_files.make_dir(place.parent)
        bring(source, place, copies=copies)
    for folder in {place.parent for _, place in places}:
        durable_files.sync_dir(folder)
