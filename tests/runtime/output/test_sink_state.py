"""What is decided about a sink, without one: from its errors, its lag and a time."""

from __future__ import annotations

import pytest

from laminar.errors import BadOption
from laminar.runtime.output.sink_definition import LagRule, SinkDefinition, merged
from laminar.runtime.output.sink_state import (
    Backoff,
    SinkMode,
    SinkState,
    holds,
    opened,
    stored_state,
    stored_status,
)
from laminar.store.cursors import Cursor

BACKOFF = Backoff(1.0, 10.0)


def fail(state: SinkState, now: float, *, is_away: bool = False) -> SinkState:
    return state.failed("no room", now, BACKOFF, is_away=is_away)


def test_the_wait_doubles_up_to_a_bound_for_ever() -> None:
    state, now, waits = SinkState(), 0.0, []
    for _ in range(2_000):
        state = fail(state, now)
        wait = state.wait(now)
        assert wait is not None
        waits.append(wait)
        now += wait
        assert state.wait(now) == 0.0
    assert waits[:6] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert set(waits[6:]) == {10.0}
    assert (state.mode, state.attempts) == (SinkMode.RETRYING, 2_000)
    assert state.succeeded() == SinkState()


def test_one_without_a_connector_is_away() -> None:
    assert fail(SinkState(), 5.0, is_away=True).mode is SinkMode.AWAY
    assert fail(SinkState(), 5.0, is_away=True).is_failing


@pytest.mark.parametrize("stopped", [SinkState().paused(), SinkState().judged(9, LagRule(8))])
def test_one_that_is_stopped_stays_so_until_it_is_resumed(stopped: SinkState) -> None:
    assert stopped.wait(1e9) is None
    assert (
        fail(stopped, 1.0) == stopped.succeeded() == stopped.level() == opened(stopped) == stopped
    )
    assert stopped.resumed(7) == SinkState(resumed_at=7)


def test_what_it_missed_before_it_was_resumed_is_no_lag() -> None:
    state = SinkState().judged(9, LagRule(8)).resumed(20)
    assert state.lag(taken=3, reach=20) == 0
    assert state.lag(taken=3, reach=25) == 5
    assert state.lag(taken=24, reach=25) == 1
    assert state.level() == SinkState()


@pytest.mark.parametrize(
    ("rule", "lag", "suspended", "held"),
    [
        (LagRule(8), 8, False, False),
        (LagRule(8), 9, True, False),
        (LagRule(8, holds=True), 7, False, False),
        (LagRule(8, holds=True), 8, False, True),
        (LagRule(0), 10**9, False, False),
    ],
)
def test_a_bound_on_the_lag(rule: LagRule, lag: int, suspended: bool, held: bool) -> None:
    state = SinkState().judged(lag, rule)
    assert (state.mode is SinkMode.SUSPENDED) == suspended
    assert holds(state, lag, rule) == held


def test_why_it_was_behind_is_said() -> None:
    state = fail(SinkState(), 0.0).judged(9, LagRule(8))
    assert (
        state.reason == "it is 9 epochs behind, more than max_lag_epochs = 8; before that: no room"
    )
    assert state.judged(10, LagRule(8)) is state


@pytest.mark.parametrize(
    "state",
    [
        SinkState().paused(),
        SinkState().judged(9, LagRule(8)),
        SinkState(resumed_at=4),
        SinkState(SinkMode.RETRYING, "no room", 3),
    ],
)
def test_a_cursor_keeps_where_it_stands(state: SinkState) -> None:
    about = state.about(2, 1_000)
    assert stored_state(about, 2) == state
    assert stored_state(about, 3) == SinkState()  # another one of its name
    assert stored_state({}, 2) == SinkState()


def test_one_that_is_well_leaves_no_trace() -> None:
    assert SinkState().about(0, None) == {}


def test_one_that_failed_is_tried_at_once_after_opening() -> None:
    failing = fail(fail(SinkState(), 0.0), 1.0)
    assert opened(failing) == SinkState()


def test_a_status_from_files() -> None:
    failing = fail(SinkState(), 0.0).about(2, 77)
    found = stored_status(Cursor("k", 1, failing), 2, 5)
    assert (found.state, found.reason, found.epoch) == ("retrying", "no room", None)
    assert (found.lag_epochs, found.attempts, found.next_try_ms) == (4, 1, 77)
    assert stored_status(None, 2, 5).lag_epochs == 4
    assert stored_status(Cursor("k", 5, {}), 2, 5).lag_epochs == 0


@pytest.mark.parametrize(
    "options",
    [
        {"max_lag_epochs": "-1"},
        {"max_lag_epochs": "many"},
        {"on_lag": "wait"},
        {"max_lag_epochs": "0", "on_lag": "hold"},
    ],
)
def test_options_that_do_not_do(options: dict[str, str]) -> None:
    with pytest.raises(BadOption):
        LagRule.of(options)


def test_options_are_shared_out() -> None:
    given = {"path": "x", "MAX_LAG_EPOCHS": "7", "on_lag": "HOLD"}
    definition = SinkDefinition("k", "v", "files", given)
    assert (definition.rule, definition.for_connector) == (LagRule(7, holds=True), {"path": "x"})
    assert SinkDefinition("k", "v", "files").rule == LagRule(1000)
    assert merged(given, {"Path": "y", "new": "1"}) == {**given, "path": "y", "new": "1"}
