"""What became of the views in an epoch, and how it is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from laminar.errors import NotSupported, OperatorError
from laminar.runtime.epoch.outcome import (
    EpochReport,
    HeldReport,
    ViewReport,
    first_of,
    held_reports,
    sizes_of,
    told_of,
)
from laminar.runtime.relations.trace_versions import TraceVersions
from laminar.runtime.scheduling.epoch_plan import EpochPlan, Hold, Skip, plan_steps

from ..parts import segment

READS = {"b": ("t",), "c": ("t",), "d": ("b", "c"), "other": ("t",), "slow": ("other",)}


def plan(**skipped: Hold) -> EpochPlan:
    groups = [("b", "c", "d"), ("other",), ("slow",)]
    return plan_steps(groups, READS, dict.fromkeys(READS, 8), skipped, 9)


def test_views_that_an_epoch_goes_without() -> None:
    held = plan(slow=Hold(Skip.NOT_DUE, "slow", "due at noon"))
    found = held_reports(held, {"b", "c", "d"}, {"c": "1 / 0"})
    assert found == {
        "b": HeldReport("b", 8, "waits for c (failed)"),
        "c": HeldReport("c", 8, "failed: 1 / 0", is_failure=True),
        "d": HeldReport("d", 8, "waits for c (failed)"),
        "slow": HeldReport("slow", 8, "not due: due at noon"),
    }


def test_a_view_that_was_planned_to_stay_because_it_failed_did_fail() -> None:
    found = held_reports(plan(other=Hold(Skip.FAILED, "other", "boom")), (), {"other": "boom"})
    assert found["other"] == HeldReport("other", 8, "failed: boom", is_failure=True)
    assert found["slow"] == HeldReport("slow", 8, "waits for other (failed: boom)")
    assert "b" not in found


def test_partial_rows_of_aggregates() -> None:
    found = sizes_of(
        {
            "v#1!partial": TraceVersions("", (segment(1, rows=9),), (segment(2, rows=3),)),
            "w#1!partial": TraceVersions("", (segment(1, rows=9),)),  # it made none
            "v": TraceVersions("", (), (segment(2, rows=7),)),
        }
    )
    assert found == {"v#1": 3}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OperatorError("v", "1 / 0"), "1 / 0"),
        (NotSupported("this", "that"), "not supported: this"),
        (ValueError("first\nstack"), "first"),
    ],
)
def test_errors_in_a_line(error: BaseException, told: str) -> None:
    assert told_of(error) == told


def test_the_error_to_raise_knows_the_others_and_what_was_committed() -> None:
    report = EpochReport(9, 1, 2.0)
    errors = {name: OperatorError(name, "boom") for name in ("c", "other")}
    error = first_of(errors, report)
    assert error is errors["c"]
    assert (errors["c"].report, errors["c"].hint) == (report, "failed too: other")
    alone = OperatorError("c", "boom")
    first_of({"c": alone})
    assert (alone.report, alone.hint) == (None, "")
    strange = ValueError()
    assert first_of({"c": strange}, report) is strange


def test_a_report_is_plain_values() -> None:
    report = EpochReport(
        9,
        5,
        1.23456,
        {"v": ViewReport("v", 3, 0.5, "full", 7, 9)},
        {"v": 1},
        {"w": HeldReport("w", 8, "paused")},
    )
    found = report.to_json(datetime(2026, 1, 1, tzinfo=UTC))
    assert json.loads(json.dumps(found)) == {
        "rows_in": 5,
        "duration_ms": 1.235,
        "started_at": "2026-01-01T00:00:00+00:00",
        "views": [
            {
                "name": "v",
                "rows_out": 3,
                "duration_ms": 0.5,
                "strategy": "full",
                "from_epoch": 7,
                "to_epoch": 9,
            }
        ],
        "held": [{"name": "w", "cursor": 8, "reason": "paused", "is_failure": False}],
    }
