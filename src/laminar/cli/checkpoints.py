"""The checkpoints of a database, read from its folder: nothing is started and nothing written."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laminar.checkpoint import CheckpointStorage
from laminar.cli.output import Printer
from laminar.cli.status import size
from laminar.errors import CheckpointCorrupt, DatabaseNotFound
from laminar.store import ManifestStore


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """One checkpoint; of a damaged one only its number and what is wrong."""

    checkpoint_id: int
    status: str
    """`complete` or `damaged`."""
    epoch: int | None = None
    created_at: str | None = None
    trigger: str | None = None
    bytes: int | None = None
    new_bytes: int | None = None
    duration_ms: float | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as `laminar checkpoints --json` prints them."""
        return dataclasses.asdict(self)


def read_checkpoints(root: Path) -> list[CheckpointStatus]:
    """Return all checkpoints, oldest first; their segments are not read."""
    storage = CheckpointStorage(root)
    if not storage.ids() and not ManifestStore(root).epochs():
        raise DatabaseNotFound(str(root))
    found = []
    for number in storage.ids():
        try:
            each = storage.read(number)
        except CheckpointCorrupt as error:
            found.append(CheckpointStatus(number, "damaged", error=error.reason))
            continue
        found.append(
            CheckpointStatus(
                number,
                "complete",
                each.epoch,
                each.created_at,
                each.trigger,
                each.bytes,
                each.new_bytes,
                round(each.duration * 1000, 3),
            )
        )
    return found


def show_checkpoints(found: list[CheckpointStatus], printer: Printer) -> None:
    """Print a row for each; that of a damaged one says what is wrong."""
    if not found:
        printer.line("no checkpoints")
        return
    printer.rows(
        ("checkpoint", "status", "epoch", "created", "by", "size", "new", "ms"),
        [
            (
                each.checkpoint_id,
                each.status if each.error is None else f"damaged: {each.error}",
                "-" if each.epoch is None else each.epoch,
                each.created_at or "-",
                each.trigger or "-",
                size(each.bytes or 0),
                size(each.new_bytes or 0),
                "-" if each.duration_ms is None else each.duration_ms,
            )
            for each in found
        ],
    )
