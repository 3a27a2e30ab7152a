"""What the writer last knew of sources that do not run: for who reads the folder without it.

It is told to people and decides nothing, so a note that is damaged, or cannot be written, is as
good as none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laminar.errors.store import StoreUnwritable
from laminar.store import durable_files
from laminar.store.durable_files import Unsealed, seal, unseal

NOTES = "sources.json"
"""The file under the store's root."""

FORMAT_VERSION = 1
_LOG = logging.getLogger("laminar.sources")


class SourceNotes:
    """The notes of one database; only the writer writes.

    Args:
        root: the store's root.
    """

    def __init__(self, root: Path) -> None:
        self._path = root.resolve() / NOTES
        self._written: Mapping[str, Any] | None = None

    def write(self, told: Mapping[str, Mapping[str, Any]]) -> None:
        """Say how sources are doing, unless that is what was said last."""
        if told == self._written or (not told and not self._path.exists()):
            return
        data = seal({"format": FORMAT_VERSION, "sources": told})
        try:
            durable_files.replace_atomic(self._path, data, point="source_notes")
        except StoreUnwritable as error:
            _LOG.warning("how sources are doing could not be noted: %s", error)
            return
        self._written = dict(told)

    def read(self) -> dict[str, dict[str, Any]]:
        """Return source -> how it is doing, of those that do not run."""
        try:
            found = unseal(self._path.read_bytes())
        except (OSError, Unsealed):
            return {}
        return dict(found["sources"]) if found.get("format") == FORMAT_VERSION else {}
