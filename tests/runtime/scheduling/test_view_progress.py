"""Where every view stands, as data."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from laminar.model.state import EngineState
from laminar.mv.retry import Failure
from laminar.runtime.scheduling.view_progress import ViewProgress

NAMES = st.sampled_from(["a", "b", "c", "t", "u"])
NUMBERS = st.dictionaries(NAMES, st.integers(0, 1 << 50))
FAILURES = st.builds(
    Failure, st.integers(1, 9), st.text(max_size=5), st.integers(), st.integers(), st.booleans()
)
PROGRESS = st.builds(
    ViewProgress,
    NUMBERS,
    NUMBERS,
    st.dictionaries(NAMES, FAILURES),
    st.frozensets(NAMES),
    NUMBERS,
    NUMBERS,
)


@given(PROGRESS)
def test_it_comes_back_from_a_manifest(progress: ViewProgress) -> None:
    before = EngineState(paused=frozenset({"w"}), behind={"gone": 1}, settings={"a": "b"})
    state = progress.saved(before)
    assert (state.paused, state.settings) == (before.paused, before.settings)
    assert ViewProgress.from_state(state) == progress
    written = EngineState.from_json(json.loads(json.dumps(state.to_json())))
    assert ViewProgress.from_state(written) == progress


def test_a_manifest_that_says_nothing() -> None:
    assert ViewProgress.from_state(EngineState()) == ViewProgress()


@given(PROGRESS, st.sets(NAMES), st.sets(NAMES))
def test_relations_that_are_gone_are_forgotten(
    progress: ViewProgress, views: set[str], tables: set[str]
) -> None:
    left = progress.only(views, tables)
    for part in ("behind", "filled", "failures", "stepped_ms", "commits"):
        before = getattr(progress, part)
        assert getattr(left, part) == {name: before[name] for name in before if name in views}
    assert left.gated == progress.gated & tables
    assert left.only(views, tables) == left


def test_a_cursor_is_that_of_the_newest_epoch_unless_said() -> None:
    progress = ViewProgress(behind={"a": 3, "b": 5})
    assert [progress.cursor(name, 9) for name in ("a", "b", "c", "t")] == [3, 5, 9, 9]
    assert progress.live() == {3, 5}
    assert ViewProgress().live() == set()


@given(PROGRESS, st.sets(NAMES, min_size=1), st.integers(0, 9))
def test_views_that_were_computed_anew(progress: ViewProgress, views: set[str], at: int) -> None:
    filled = progress.with_filled(views, at, 9, 77)
    for name in "abctu":
        if name not in views:
            for part in ("behind", "filled", "failures", "stepped_ms"):
                assert getattr(filled, part).get(name) == getattr(progress, part).get(name)
            continue
        assert filled.cursor(name, 9) == at
        assert (name in filled.behind) == (at < 9)
        assert (filled.filled[name], filled.stepped_ms[name]) == (at, 77)
        assert name not in filled.failures
    assert filled.commits == progress.commits
