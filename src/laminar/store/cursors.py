"""How far each consumer has come, one small durable file per consumer."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laminar.errors.store import CursorCorrupt, UnsupportedFormat
from laminar.store import durable_files
from laminar.store.durable_files import Unsealed, seal, unseal
from laminar.store.names import folder_name

SINKS, SUBSCRIPTIONS = "cursors", "subscriptions"
"""Folders under the store's root, one per kind of consumer."""

FORMAT_VERSION = 2
"""The newest format, the one that is written; the first is read, too."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A consumer, the last epoch it has taken, and what else it wants to find again."""

    consumer: str
    epoch: int
    about: Mapping[str, str] = field(default_factory=dict)


class CursorStore:
    """Consumer -> its cursor. A cursor is replaced whole, or not at all.

    Args:
        root: the store's root.
        kind: the folder of all consumers of one kind.
        cached: whether nobody else writes them, so that each is read only once.
    """

    def __init__(self, root: Path, kind: str = SINKS, *, cached: bool = True) -> None:
        self._folder = root.resolve() / kind
        self._cached = cached
        self._known: dict[str, Cursor | None] = {}

    def get(self, consumer: str) -> Cursor | None:
        """Return a cursor; None if nothing was taken yet."""
        if consumer not in self._known or not self._cached:
            self._known[consumer] = self._load(self._path(consumer))
        return self._known[consumer]

    def all(self) -> Iterator[Cursor]:
        """Yield every cursor that is stored, by name of its file."""
        for path in durable_files.listed(self._folder):
            found = self._load(path) if path.suffix == ".json" else None
            if found is not None:
                yield found

    def advance(self, consumer: str, epoch: int, about: Mapping[str, str] | None = None) -> None:
        """Note that an epoch was taken; durable on return."""
        cursor = Cursor(consumer, epoch, dict(about or {}))
        durable_files.replace_atomic(self._path(consumer), _encode(cursor), point="cursor")
        self._known[consumer] = cursor

    def forget(self, consumer: str) -> None:
        """Start from the beginning, if the consumer ever comes back."""
        self._known.pop(consumer, None)
        durable_files.remove(self._path(consumer), point="cursor")

    def keep_only(self, consumers: Collection[str]) -> None:
        """Forget consumers that are no longer there."""
        kept = {self._path(each).name for each in consumers}
        self._known = {name: each for name, each in self._known.items() if name in consumers}
        for path in durable_files.listed(self._folder):
            if path.name not in kept:
                durable_files.remove_quietly(path, point="cursor")

    def _load(self, path: Path) -> Cursor | None:
        try:
            data = durable_files.read(path)
        except FileNotFoundError:
            return None
        try:
            return _decode(data) if b"\n" in data else _decode_first(data)
        except Unsealed as error:
            raise CursorCorrupt(str(path), str(error)) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CursorCorrupt(str(path), f"it cannot be understood: {error!r}") from error

    def _path(self, consumer: str) -> Path:
        return self._folder / f"{folder_name(consumer)}.json"


def _encode(cursor: Cursor) -> bytes:
    return seal({"format": FORMAT_VERSION, **_plain(cursor)})


def _decode(data: bytes) -> Cursor:
    found = unseal(data)
    if found["format"] != FORMAT_VERSION:
        raise UnsupportedFormat(found["format"], FORMAT_VERSION, "a cursor")
    return Cursor(found["consumer"], found["epoch"], found["about"])


def _decode_first(data: bytes) -> Cursor:
    """Read the first format: one line, which knows its own checksum."""
    found = json.loads(data)
    cursor = Cursor(found["consumer"], found["epoch"], found["about"])
    text = json.dumps(_plain(cursor), sort_keys=True)
    if found["sum"] != f"crc32:{zlib.crc32(text.encode()):08x}":
        raise Unsealed("its checksum does not match")
    return cursor


def _plain(cursor: Cursor) -> dict[str, object]:
    return {"consumer": cursor.consumer, "epoch": cursor.epoch, "about": dict(cursor.about)}
