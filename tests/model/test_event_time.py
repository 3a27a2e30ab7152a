from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.model.event_time import (
    Chain,
    Edge,
    Growing,
    SessionEnd,
    Shift,
    Side,
    final,
    shown,
    through,
)


def windows(size: int, slide: int, offset: int) -> list[tuple[int, int]]:
    return [(n * slide + offset, n * slide + offset + size) for n in range(-300, 300)]


@given(st.integers(-200, 200), st.integers(1, 30), st.integers(1, 30), st.integers(-40, 40))
def test_the_first_window_that_is_not_over(bound: int, slide: int, more: int, offset: int) -> None:
    """A window that is still to come is one that ends after the watermark, and no earlier one."""
    size = slide * (1 + more % 4)
    open_ = [each for each in windows(size, slide, offset) if each[1] > bound]
    assert Edge(Side.START, size, slide, offset).least(bound) == min(open_)[0]
    assert Edge(Side.END, size, slide, offset).least(bound) == min(each[1] for each in open_)


@given(st.integers(-200, 200), st.integers(1, 12), st.integers(1, 6))
def test_windows_that_begin_together(bound: int, step: int, times: int) -> None:
    size = step * times
    listed = [
        (n * size, n * size + k * step) for n in range(-250, 250) for k in range(1, times + 1)
    ]
    open_ = [each for each in listed if each[1] > bound]
    assert Growing(Side.END, size, step).least(bound) == min(each[1] for each in open_)
    assert Growing(Side.START, size, step).least(bound) == min(each[0] for each in open_)


@given(st.integers(-200, 200), st.integers(0, 50))
def test_steps_are_monotone(low: int, more: int) -> None:
    for step in (Edge(Side.END, 10, 5, 3), Growing(Side.START, 12, 4), SessionEnd(), Shift(-7)):
        assert step.least(low) <= step.least(low + more)


def test_a_chain_knows_what_is_shown_and_what_is_final() -> None:
    second, minute = Edge(Side.START, 1, 1), Edge(Side.END, 60, 60)
    chain = Chain().then((second,), lateness=30).then((minute,))
    assert shown([chain], None) is None
    # The minute that ends at 60 is over at 60, and final half a minute later.
    assert shown([chain], 59) == 60
    assert shown([chain], 60) == 120
    assert (final([chain], 89), final([chain], 90)) == (60, 120)
    assert shown([chain, Chain((Shift(-100),))], 60) == -40
    assert through((), 7) == 7


@pytest.mark.parametrize("mark", [0, 59, 60, 61])
def test_a_week_of_sevens_over_minutes(mark: int) -> None:
    """Windows that do not line up: the outer one waits for the inner one that reaches out of it."""
    chain = Chain().then((Edge(Side.START, 7, 7),)).then((Edge(Side.END, 60, 60),))
    inner_open = [s for s in range(0, 200, 7) if s + 7 > mark]
    outer_done = {e for e in range(60, 200, 60) if all(s >= e for s in inner_open)}
    bound = shown([chain], mark)
    assert bound is not None
    assert outer_done == {e for e in range(60, 200, 60) if e < bound}
