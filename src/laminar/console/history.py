"""What the kept epochs did, from their manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from laminar.errors import EpochNotFound, ManifestCorrupt
from laminar.model.trace import Manifest
from laminar.store import ManifestStore


@dataclass(frozen=True, slots=True)
class ViewSummary:
    """What an epoch did to one view."""

    name: str
    rows: int
    """Rows of its delta."""
    ms: float
    strategy: str


@dataclass(frozen=True, slots=True)
class EpochSummary:
    """A committed epoch, as its manifest tells it."""

    epoch: int
    committed_at: str
    rows_in: int | None
    """None, as the duration, of an epoch that only holds definitions."""
    duration_ms: float | None
    views: tuple[ViewSummary, ...]
    """The views that ran."""
    late: Mapping[str, int] | None
    """View or table -> rows that were late since the kept epoch before; None if none is kept."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as the page asks for them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Kept:
    summary: EpochSummary
    late: Mapping[str, int]
    """As counted from the beginning."""


class History:
    """Summaries of all epochs; a manifest is read once, for only the newest may change."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept: dict[int, _Kept] = {}

    def read(self, newest: Manifest) -> tuple[tuple[EpochSummary, ...], tuple[str, ...]]:
        """Return the kept epochs up to the newest, oldest first, and manifests that are damaged."""
        store = ManifestStore(self._root)
        epochs = [each for each in store.epochs() if each < newest.epoch]
        known, damaged = self._kept, []
        self._kept = {}
        for epoch in epochs:
            try:
                self._kept[epoch] = known.get(epoch) or _kept(store.get(epoch))
            except (EpochNotFound, FileNotFoundError):
                continue  # the writer has let go of it just now
            except ManifestCorrupt as error:
                damaged.append(error.path)
        return _with_late([*self._kept.values(), _kept(newest)]), tuple(damaged)


def _kept(manifest: Manifest) -> _Kept:
    report = manifest.state.report
    views = tuple(
        ViewSummary(each["name"], each["rows_out"], each["duration_ms"], each["strategy"])
        for each in report.get("views", ())
    )
    summary = EpochSummary(
        manifest.epoch,
        manifest.committed_at,
        report.get("rows_in"),
        report.get("duration_ms"),
        views,
        None,
    )
    return _Kept(summary, manifest.state.clocks.late)


def _with_late(kept: list[_Kept]) -> tuple[EpochSummary, ...]:
    """Turn counts from the beginning into counts of each epoch."""
    found: list[EpochSummary] = []
    before: Mapping[str, int] | None = {} if kept[0].summary.epoch <= 1 else None
    for each in kept:
        late = None
        if before is not None:
            grown = {name: count - before.get(name, 0) for name, count in each.late.items()}
            late = {name: count for name, count in grown.items() if count > 0}
        found.append(replace(each.summary, late=late))
        before = each.late
    return tuple(found)
