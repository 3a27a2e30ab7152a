"""Whether a relation goes on with the epochs, as its manifest says."""

from __future__ import annotations

from pathlib import Path

import pytest

import laminar
from laminar.model.state import EngineState
from laminar.model.trace import Manifest
from laminar.mv.retry import Failure
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
    to_json,
)
from laminar.runtime.introspection.status import kind_of, read_status, state_of
from laminar.runtime.scheduling.view_progress import ViewProgress
from laminar.store import ManifestStore

from ..parts import manifest

HELD = {"held": [{"name": "v", "reason": "waits for w (paused)"}]}
MORE = "laminar_system.materialized_views says more"
CAST = "[CAST_INVALID_INPUT] The value 'alice' of the type \"STRING\" cannot be cast"
BEHIND = {"held": [{"name": "v", "reason": f"waits for w (failing: {CAST})"}]}
NOT_DUE = {"held": [{"name": "v", "reason": "not due: due at noon"}]}


@pytest.mark.parametrize(
    ("progress", "state", "told"),
    [
        ({}, {}, ("running", None)),
        ({}, {"paused": frozenset({"v"})}, ("paused", None)),
        ({"failures": {"v": Failure(1, "boom", 0, 0)}}, {}, ("failing", f"it failed; {MORE}")),
        (
            {"failures": {"v": Failure(5, "boom", 0, 0, True)}},
            {},
            ("suspended", f"it failed; {MORE}"),
        ),
        ({"gated": frozenset({"v"})}, {}, ("gated", "no view may see its rows yet")),
        ({"behind": {"v": 1}}, {}, ("held", None)),
        ({"behind": {"v": 1}}, {"report": HELD}, ("held", "waits for w (paused)")),
        ({"behind": {"v": 1}}, {"report": NOT_DUE}, ("scheduled", "not due: due at noon")),
        (
            {"failures": {"v": Failure(1, CAST, 0, 0)}},
            {},
            ("failing", f"[CAST_INVALID_INPUT]; {MORE}"),
        ),
        (
            {"failures": {"v": Failure(1, "function f raised ValueError: alice", 0, 0)}},
            {},
            ("failing", f"function f raised ValueError; {MORE}"),
        ),
        (
            {"behind": {"v": 1}, "failures": {"w": Failure(1, CAST, 0, 0)}},
            {"report": BEHIND},
            ("held", f"waits for w (failing: [CAST_INVALID_INPUT]; {MORE})"),
        ),
        ({}, {"report": HELD}, ("running", None)),  # it has caught up since
    ],
)
def test_the_state_of_a_relation(
    progress: dict[str, object], state: dict[str, object], told: tuple[str, str | None]
) -> None:
    found = manifest(3, progress=ViewProgress(**progress), **state)  # type: ignore[arg-type]
    assert state_of("v", found) == told
    assert state_of("other", found) == ("running", None)
    assert "alice" not in str(state_of("v", found))


@pytest.mark.parametrize("raises", [laminar.SourceReadFailed("s", "no"), ValueError("no"), None])
def test_a_source_with_options_of_ours_can_be_behind(
    tmp_path: Path, raises: Exception | None
) -> None:
    class Asked:
        append_only = True

        def __init__(self, spec: laminar.SourceSpec) -> None:
            assert dict(spec.options) == {}

        def latest_offset(self, _start: object) -> int:
            if raises is not None:
                raise raises
            return 1

        def read(self, *_: object) -> None:
            raise AssertionError("nobody reads")

    laminar.register_source("asked", Asked)  # type: ignore[arg-type]
    options = {"max_latency": "5 ms", "backpressure": "drop"}
    table = TableDefinition("s", (("n", "bigint", True),), True, "asked", options)
    at = "2026-01-01T00:00:00+00:00"
    ManifestStore(tmp_path).commit(
        Manifest(1, {}, {}, to_json({"s": table}), {}, EngineState(), at)
    )
    (found,) = read_status(tmp_path).relations
    assert found.behind is (True if raises is None else None)


@pytest.mark.parametrize(
    ("definition", "kind"),
    [
        (TableDefinition("t", ()), "table"),
        (TableDefinition("t", (), True), "source (pushed)"),
        (TableDefinition("t", (), True, "kafka"), "source (kafka)"),
        (ViewDefinition("v", ""), "materialized view"),
        (OperatorDefinition("o", (), ()), "operator"),
        (LateDefinition("l", "v"), "late rows"),
    ],
)
def test_what_a_relation_is(definition: Definition, kind: str) -> None:
    assert kind_of(definition) == kind
