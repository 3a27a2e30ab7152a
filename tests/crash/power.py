"""What is on a disk after the power has gone: what was synced, and of the rest nobody knows what.

Bytes of a file are safe once the file was synced, names in a folder once the folder was. What came
later is there or not, each by itself, in any order; bytes may also be there in part, or as zeros.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

Names: TypeAlias = dict[str, int]
"""Name -> number of the file or folder that it names."""


class Power:
    """Notes what a process syncs below some folders; all that is there at first is safe."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, Names] = {}
        self._held: dict[int, int] = {}  # open, so that no other file gets their number
        for root in folders:
            for folder, _, files in os.walk(root):
                self._note(Path(folder))
                for name in files:
                    self._note(Path(folder, name))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what is synced inside."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("fsync", "fdatasync"):
                patch.setattr(os, name, self._noting(getattr(os, name)))
            yield

    def close(self) -> None:
        """Let go of all files."""
        for handle in self._held.values():
            os.close(handle)

    def _noting(self, real: Any) -> Any:
        def sync(handle: int) -> None:
            real(handle)
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if any(root in path.parents or root == path for root in self.folders):
                self._note(Path(f"/proc/self/fd/{handle}"))

        return sync

    def _note(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        number = os.fstat(handle).st_ino
        if number in self._held:
            os.close(handle)
        else:
            self._held[number] = handle
        if stat.S_ISDIR(os.fstat(self._held[number]).st_mode):
            self._names[number] = _names(path)
        else:
            with open(os.dup(self._held[number]), "rb") as file:  # noqa: PTH123 - by its handle
                file.seek(0)
                self._bytes[number] = file.read()

    def gone(self, chance: random.Random, into: Path) -> None:
        """Write what may be there if the power goes now: each folder under its name."""
        for root in self.folders:
            if root.is_dir():
                self._build(root, root.stat().st_ino, into / root.name, chance)

    def _build(self, now: Path | None, number: int, into: Path, chance: random.Random) -> None:
        """Write a folder; `now` is where it is, if it is still there."""
        into.mkdir(parents=True)
        here = _names(now) if now is not None and now.is_dir() else {}
        safe = self._names.get(number, {})
        for name in sorted(here.keys() | safe.keys()):
            found = chance.choice([here.get(name), safe.get(name)])
            if found is None:
                continue
            there = now / name if now is not None and here.get(name) == found else None
            if found in self._names or (there is not None and there.is_dir()):
                self._build(there, found, into / name, chance)
            else:
                (into / name).write_bytes(self._content(there, found, chance))

    def _content(self, there: Path | None, number: int, chance: random.Random) -> bytes:
        safe = self._bytes.get(number, b"")
        here = safe
        if there is not None:
            try:
                here = there.read_bytes()
            except FileNotFoundError:  # by another process, just now
                here = safe
        part = here[: chance.randrange(len(here) + 1)]
        return here if here == safe else chance.choice([safe, here, part, bytes(len(here))])


def _names(folder: Path) -> Names:
    with os.scandir(folder) as found:
        return {each.name: each.inode() for each in found}
