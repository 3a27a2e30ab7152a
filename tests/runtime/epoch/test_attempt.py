"""An epoch on its way: what it waits for, and whom it blames."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from laminar.dag import DagNode
from laminar.errors import OperatorError
from laminar.runtime.epoch.attempt import EpochAttempt
from laminar.runtime.epoch.flight import DeltaNotice, Flight


class Nothing:
    """A task without work."""

    def prepare(self, nodes: list[DagNode]) -> None: ...

    def run(self, node: DagNode, _inputs: list[DeltaNotice], /) -> DeltaNotice | None: ...

    def share(self, _node: DagNode, delta: DeltaNotice) -> DeltaNotice:
        return delta

    def finished(self, node: DagNode) -> None: ...


def flight(**failures: BaseException) -> Flight:
    return Flight(1, Nothing(), {}, frozenset(), set(), failures=dict(failures))


def attempt(one: Flight) -> EpochAttempt:
    nobody = cast("Any", None)
    return EpochAttempt(frozenset(), nobody, nobody, nobody, one)


def test_whoever_waits_goes_on_when_nothing_runs_any_more() -> None:
    one = flight()
    waiter = threading.Thread(target=one.wait, daemon=True)
    waiter.start()
    waiter.join(0.05)
    assert waiter.is_alive()
    one.end()
    waiter.join(20)
    assert not waiter.is_alive()


def test_what_went_wrong_first_is_raised() -> None:
    one = flight(c=ValueError("first"), d=ValueError("second"))
    one.end()
    with pytest.raises(ValueError, match="first"):
        one.wait()


def test_a_caller_that_is_interrupted_waits_until_nobody_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = flight()
    waited: list[bool] = []

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(one.is_called_off)
            if len(waited) == 1:
                raise KeyboardInterrupt
            return super().wait(timeout)

    over = Interrupted()
    over.set()
    monkeypatch.setattr(one, "_over", over)
    with pytest.raises(KeyboardInterrupt):
        one.wait()
    assert waited == [False, True]


def test_a_fused_view_is_blamed_for_what_fails_in_its_reader() -> None:
    blamed, own = OperatorError("fused", "1 / 0"), ValueError()
    one = flight(reader=blamed, other=own)
    one.end()
    assert attempt(one).failures() == {"fused": blamed, "other": own}


def test_an_attempt_without_failures() -> None:
    one = flight()
    one.end()
    assert attempt(one).failures() == {}


def test_what_is_no_failure_of_a_view_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    one = flight()

    def broken() -> None:
        raise RuntimeError("no threads")

    monkeypatch.setattr(Flight, "wait", lambda _: broken())
    with pytest.raises(RuntimeError, match="no threads"):
        attempt(one).failures()
