from __future__ import annotations

from laminar.model.state import EngineState
from laminar.mv.retry import Failure
from laminar.runtime.scheduling.view_progress import ViewProgress

PROGRESS = ViewProgress(
    behind={"v": 3},
    filled={"v": 1, "w": 2},
    failures={"v": Failure(2, "1 / 0", 5, 9, is_suspended=True)},
    gated=frozenset({"t"}),
    stepped_ms={"w": 7},
    commits={"v": 4},
)


def test_progress_is_read_back_from_the_state_it_was_saved_in() -> None:
    before = EngineState(paused=frozenset({"w"}), behind={"gone": 1}, settings={"a": "b"})
    state = PROGRESS.saved(before)
    assert (state.paused, state.settings) == (before.paused, before.settings)
    assert ViewProgress.from_state(state) == PROGRESS
    assert ViewProgress.from_state(EngineState.from_json(state.to_json())) == PROGRESS


def test_without_a_word_every_view_is_at_the_newest_epoch() -> None:
    progress = ViewProgress.from_state(EngineState())
    assert progress == ViewProgress()
    assert (PROGRESS.cursor("v", 9), progress.cursor("v", 9)) == (3, 9)
