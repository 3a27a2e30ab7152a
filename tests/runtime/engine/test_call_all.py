"""Several calls, of which any may fail."""

from __future__ import annotations

import pytest

from laminar.runtime.engine.call_all import call_all


def test_all_are_called_whatever_comes_of_the_others() -> None:
    called: list[int] = []

    def call(number: int) -> None:
        called.append(number)
        if number in (1, 2):
            raise ValueError(str(number))

    with pytest.raises(ValueError, match="1"):
        call_all([lambda n=n: call(n) for n in range(4)])  # type: ignore[misc]
    assert called == [0, 1, 2, 3]


def test_an_interruption_ends_it() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def never() -> None:
        raise AssertionError("called behind Ctrl-C")

    with pytest.raises(KeyboardInterrupt):
        call_all([interrupted, never])
