"""How far each consumer has come, one small durable file per consumer."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from laminar.errors.store import ManifestCorrupt
from laminar.store import files
from laminar.store.names import folder_name

CURSORS = "cursors"
"""The folder of all cursors under the store's root."""


class CursorStore:
    """Consumer -> the last epoch it has taken. A cursor is replaced whole, or not at all."""

    def __init__(self, root: Path) -> None:
        self._folder = root.resolve() / CURSORS
        self._known: dict[str, int | None] = {}

    def get(self, consumer: str) -> int | None:
        """Return the last epoch that was taken; None if there was none yet."""
        if consumer not in self._known:
            self._known[consumer] = self._load(self._path(consumer))
        return self._known[consumer]

    def advance(self, consumer: str, epoch: int) -> None:
        """Note that an epoch was taken; durable on return."""
        path = self._path(consumer)
        temp = path.with_name(f".{path.name}{files.TEMP_SUFFIX}")
        with files.unwritable(path):
            files.make_dir(self._folder)
            with temp.open("wb") as file:
                file.write(json.dumps({"consumer": consumer, "epoch": epoch}).encode())
                file.flush()
                os.fsync(file.fileno())
            temp.replace(path)
            files.sync_dir(self._folder)
        self._known[consumer] = epoch

    def forget(self, consumer: str) -> None:
        """Start from the beginning, if the consumer ever comes back."""
        self._known.pop(consumer, None)
        with files.unwritable(self._path(consumer)):
            self._path(consumer).unlink(missing_ok=True)

    def keep_only(self, consumers: Collection[str]) -> None:
        """Forget consumers that are no longer there."""
        kept = {self._path(each).name for each in consumers}
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name not in kept:
                    files.remove_quietly(path)

    def _load(self, path: Path) -> int | None:
        try:
            return int(json.loads(path.read_bytes())["epoch"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ManifestCorrupt(str(path), f"it cannot be understood: {error!r}") from error

    def _path(self, consumer: str) -> Path:
        return self._folder / f"{folder_name(consumer)}.json"
