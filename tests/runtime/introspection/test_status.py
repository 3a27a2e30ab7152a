"""Whether a relation goes on with the epochs, as its manifest says."""

from __future__ import annotations

import pytest

from laminar.mv.retry import Failure
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
)
from laminar.runtime.introspection.status import kind_of, state_of
from laminar.runtime.scheduling.view_progress import ViewProgress

from ..parts import manifest

HELD = {"held": [{"name": "v", "reason": "waits for w (paused)"}]}
NOT_DUE = {"held": [{"name": "v", "reason": "not due: due at noon"}]}


@pytest.mark.parametrize(
    ("progress", "state", "told"),
    [
        ({}, {}, ("running", None)),
        ({}, {"paused": frozenset({"v"})}, ("paused", None)),
        ({"failures": {"v": Failure(1, "boom", 0, 0)}}, {}, ("failing", "boom")),
        ({"failures": {"v": Failure(5, "boom", 0, 0, True)}}, {}, ("suspended", "boom")),
        ({"gated": frozenset({"v"})}, {}, ("gated", "no view may see its rows yet")),
        ({"behind": {"v": 1}}, {}, ("held", None)),
        ({"behind": {"v": 1}}, {"report": HELD}, ("held", "waits for w (paused)")),
        ({"behind": {"v": 1}}, {"report": NOT_DUE}, ("scheduled", "not due: due at noon")),
        ({}, {"report": HELD}, ("running", None)),  # it has caught up since
    ],
)
def test_the_state_of_a_relation(
    progress: dict[str, object], state: dict[str, object], told: tuple[str, str | None]
) -> None:
    found = manifest(3, progress=ViewProgress(**progress), **state)  # type: ignore[arg-type]
    assert state_of("v", found) == told
    assert state_of("other", found) == ("running", None)


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
