"""What became of the views in an epoch, and how it is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from laminar.errors import LaminarError, OperatorError
from laminar.model.trace import Trace
from laminar.model.trace_name import is_partial, relation_of
from laminar.runtime.event_time.late_batch import LateBatch, TimedResults
from laminar.runtime.relations.trace_versions import TraceVersions
from laminar.runtime.scheduling.epoch_plan import EpochPlan
from laminar.runtime.spark.error_translation import first_sentence


@dataclass(frozen=True, slots=True)
class ViewReport:
    """What an epoch did to one view."""

    name: str
    rows_out: int
    duration_ms: float
    strategy: str
    from_epoch: int = 0
    """The epoch it was at before."""
    to_epoch: int = 0
    """The epoch it is at now; more than one further, if it had stayed behind."""


@dataclass(frozen=True, slots=True)
class HeldReport:
    """A view that an epoch went without."""

    name: str
    cursor: int
    """The epoch it stays at."""
    reason: str
    is_failure: bool = False
    """Whether it was tried, and failed itself."""


@dataclass(frozen=True, slots=True)
class SinkReport:
    """A sink that had not taken an epoch when the call that ran it returned."""

    name: str
    epoch: int | None
    """The last one it has taken."""
    state: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What a committed epoch took in, and what became of the views."""

    epoch: int
    rows_in: int
    duration_ms: float
    views: Mapping[str, ViewReport] = field(default_factory=dict)
    late_rows: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, HeldReport] = field(default_factory=dict)
    """Views that stay behind, and why."""
    sinks: Mapping[str, SinkReport] = field(default_factory=dict)
    """Sinks that had not taken it when the call returned, and why; nobody waits for slow ones."""

    def to_json(self, started_at: datetime) -> dict[str, Any]:
        """Return plain values for the manifest, by which the history of refreshes is told."""
        return {
            "rows_in": self.rows_in,
            "duration_ms": round(self.duration_ms, 3),
            "started_at": started_at.isoformat(),
            "views": [asdict(each) for each in self.views.values()],
            "held": [asdict(each) for each in self.held.values()],
        }


@dataclass(slots=True)
class Outcome:
    """What became of the views in an epoch."""

    traces: dict[str, Trace]
    """All that is stored, with what the views added."""
    reports: dict[str, ViewReport] = field(default_factory=dict)
    failures: dict[str, BaseException] = field(default_factory=dict)
    """View that failed -> its error."""
    fallen: set[str] = field(default_factory=set)
    """Views that stay where they were because they, or something they depend on, failed."""
    in_time: list[TimedResults] = field(default_factory=list)
    late: list[LateBatch] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Aggregate -> the partial rows it made."""


def sizes_of(versions: Mapping[str, TraceVersions]) -> dict[str, int]:
    """Return how many partial rows each aggregate made."""
    return {
        relation_of(name): trace_versions.changed_rows
        for name, trace_versions in versions.items()
        if trace_versions.delta and is_partial(name)
    }


def held_reports(
    plan: EpochPlan, fallen: Collection[str], failed: Mapping[str, str]
) -> dict[str, HeldReport]:
    """Tell which views an epoch goes without, and why."""
    found: dict[str, HeldReport] = {}
    for view, cursor in plan.before.items():
        if view in fallen:
            own = failed.get(view)
            reason = f"failed: {own}" if own else f"waits for {', '.join(sorted(failed))} (failed)"
            found[view] = HeldReport(view, cursor, reason, is_failure=own is not None)
        elif view in plan.held:
            reason, at = plan.held[view].told(view), plan.after[view]
            found[view] = HeldReport(view, at, reason, is_failure=view in failed)
    return found


def told_of(error: BaseException) -> str:
    """Return what an error says, in a line."""
    if isinstance(error, OperatorError):
        return error.detail
    return error.message if isinstance(error, LaminarError) else first_sentence(error)


def first_of(
    failures: Mapping[str, BaseException], report: EpochReport | None = None
) -> BaseException:
    """Return the error to raise; it knows what was committed without the view."""
    error = next(iter(failures.values()))
    if isinstance(error, OperatorError):
        error.report = report
        others = [name for name in failures if name != error.node]
        if others:
            error.hint = f"failed too: {', '.join(others)}"
    return error
