from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from laminar.model.state import Clocks, EngineState
from laminar.model.trace import Manifest
from laminar.mv import MvRegistry
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.event_time.clocks import EventTime

STATE = EngineState(
    said={"t": 11},
    parts={"t": {"p": 12}},
    clocks=Clocks({"v": 1}, {"v#1": 2, "v2#1": 4}, {"t": 3}),
    cuts={4: {"t": 10}},
)


def event_time() -> EventTime:
    registry = MvRegistry()
    registry.register_base_table("t")
    catalog: Any = SimpleNamespace(registry=registry)
    found = EventTime(lambda: catalog, TimeSettings())
    found.restore(Manifest(4, {}, {}, [], {"t": 10}, STATE, ""))
    return found


def test_time_goes_on_from_the_state_it_was_saved_in() -> None:
    assert event_time().saved(EngineState(paused=frozenset({"w"}))) == EngineState(
        paused=frozenset({"w"}),
        said=STATE.said,
        parts=STATE.parts,
        clocks=STATE.clocks,
        cuts=STATE.cuts,
    )


def test_what_is_saved_does_not_change_afterwards() -> None:
    time = event_time()
    saved = time.saved(EngineState())
    with time.forgetting(["t"]):
        pass
    assert (saved.said, saved.parts) == (STATE.said, STATE.parts)


def test_a_dropped_view_is_forgotten_with_its_parts_and_no_other() -> None:
    time = event_time()
    with time.forgetting(["v"]):
        pass
    assert time.clocks == Clocks({}, {"v2#1": 4}, {"t": 3})
