"""What recovery found, and what it did about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class RecoveryWarning(UserWarning):
    """A database was opened, but not all of it was as it had been written."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that does not hold what was written to it."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class DagRecoveryMetrics:
    """What was recovered when a database was opened; `db.recovery`."""

    checkpoint_id: int | None
    """The checkpoint that the state came from; None if the newest epoch was whole."""
    source_offsets: Mapping[str, Any]
    """Where every source is read on."""
    nodes_restored: int
    """Tables and views that have a state of their own, which was found whole or put back."""
    epoch: int = 0
    """Where the database stood before logged epochs were replayed."""
    source: str = "new"
    """`new`, `manifest` or `checkpoint`; `reader` if it was opened for reading only."""
    damaged: tuple[Damage, ...] = ()
    """What was found damaged, whether or not it was needed in the end."""
    healed: tuple[str, ...] = ()
    """Damaged files that a checkpoint had a good copy of."""
    rebuilt: tuple[str, ...] = ()
    """Views whose rows were computed again from what they read."""
    replayed: tuple[int, ...] = ()
    """Epochs that were logged and not committed, or whose state was lost: run again, alike."""
    to_replay: tuple[int, ...] = ()
    """Epochs that wait for Python operators to be given again; the next step runs them."""
    set_aside: str | None = None
    """Where damaged or later state was moved to."""
    verified_files: int = 0
    verified_bytes: int = 0
    duration: float = 0.0
    """Seconds, replay included."""
    target: float = field(default=5.0, compare=False)

    @property
    def within_target(self) -> bool:
        """Whether recovery was as fast as it was asked to be."""
        return self.duration <= self.target

    def missed(self) -> str:
        """Return by how much recovery took longer than it should; nothing if it did not."""
        if self.within_target:
            return ""
        size = f"{self.verified_files} files of {self.verified_bytes / 1e6:,.0f} MB"
        return (
            f"recovery took {self.duration:.1f} s, and was to take {self.target:g} s:"
            f" {size} verified, {len(self.healed)} healed, {len(self.rebuilt)} views rebuilt,"
            f" {len(self.replayed)} epochs replayed"
        )

    def told(self) -> str:
        """Return what a user should hear about; nothing if all was well."""
        if not self.damaged:
            return ""
        lines = [f"damaged: {each}" for each in self.damaged[:5]]
        if len(self.damaged) > 5:
            lines.append(f"and {len(self.damaged) - 5} more, see db.recovery")
        found = self.checkpoint_id
        where = f"epoch {self.epoch}" if found is None else f"checkpoint {found}"
        done = [f"recovered from {where}"]
        if self.healed:
            done.append(f"{len(self.healed)} files taken from checkpoints")
        if self.rebuilt:
            done.append(f"views rebuilt: {', '.join(self.rebuilt)}")
        if self.replayed or self.to_replay:
            epochs = ", ".join(map(str, (*self.replayed, *self.to_replay)))
            done.append(f"epochs replayed: {epochs}")
        if self.set_aside:
            done.append(f"set aside in {self.set_aside}")
        return "; ".join([*lines, *done])
