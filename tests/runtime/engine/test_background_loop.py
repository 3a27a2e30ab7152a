from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from laminar.errors import LoopFailed, OperatorError, SourceReadFailed, WriterBusy
from laminar.runtime.engine.background_loop import ATTEMPTS, BackgroundLoop
from laminar.runtime.ingest.connector_bridge import LOOP


class FakeWays:
    """Bridges that are told what to say."""

    def __init__(self) -> None:
        self.running = False
        self.signals = 0
        self.failing: dict[str, Exception] = {}
        self.idle = threading.Event()

    def pump(self) -> None:
        pass

    @property
    def is_awaited(self) -> bool:
        return threading.current_thread().name == LOOP

    def wake(self) -> None:
        self.signals += 1

    def wait(self, seen: int, at_most: float = 0.1) -> None:
        del seen, at_most
        self.idle.set()
        threading.Event().wait(0.001)

    def errors(self) -> dict[str, Exception]:
        return self.failing


def loop_of(step: Callable[[], int], epoch: Callable[[], int] = lambda: 0) -> BackgroundLoop:
    return BackgroundLoop(FakeWays(), step, epoch)


def test_it_steps_until_nothing_is_left_and_then_waits() -> None:
    work = [1, 2, 1]
    loop = loop_of(lambda: work.pop() if work else 0)
    ways = loop._ways
    assert isinstance(ways, FakeWays)
    loop.start()
    loop.start()  # runs already
    assert ways.idle.wait(10)
    assert loop.status.running
    loop.stop()
    assert loop.status.epochs == 4
    assert not loop.status.running


def test_an_epoch_that_keeps_failing_stops_the_loop_and_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laminar.runtime.engine.background_loop._FIRST_PAUSE", 0.0)
    tried = []

    def step() -> int:
        tried.append(1)
        raise ValueError("division by zero")

    loop = loop_of(step)
    loop.start()
    assert loop._thread is not None
    loop._thread.join(10)
    assert len(tried) == ATTEMPTS
    assert "division by zero" in str(loop.status.error)
    assert not loop.status.running
    with pytest.raises(LoopFailed, match="division by zero") as caught:
        loop.report()
    assert isinstance(caught.value.__cause__, ValueError)
    loop.stop()  # once is enough


def test_a_failure_that_passes_is_reported_and_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laminar.runtime.engine.background_loop._FIRST_PAUSE", 0.0)
    turns: Iterator[int | ValueError] = iter([ValueError("not yet"), 1])

    def step() -> int:
        found: int | ValueError = next(turns, 0)
        if isinstance(found, ValueError):
            raise found
        return found

    loop = loop_of(step)
    loop.start()
    ways = loop._ways
    assert isinstance(ways, FakeWays)
    assert ways.idle.wait(10)
    assert loop.status.running
    with pytest.raises(ValueError, match="not yet"):
        loop.stop()
    assert (loop.status.epochs, loop.status.failures) == (1, 1)


def test_views_that_fail_in_a_committed_epoch_do_not_stop_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laminar.runtime.engine.background_loop._FIRST_PAUSE", 0.0)
    epoch = 0
    done = threading.Event()

    def step() -> int:
        nonlocal epoch
        if epoch == 3 * ATTEMPTS:
            done.set()
            return 0
        epoch += 1
        raise ValueError("one view of many")

    loop = loop_of(step, lambda: epoch)
    loop.start()
    assert done.wait(10)
    assert loop.status.running
    loop.halt()


def test_a_view_that_keeps_failing_is_told_of_once_and_stops_nobody() -> None:
    turns = after = 0
    failed, told, done = threading.Event(), threading.Event(), threading.Event()

    def step() -> int:
        nonlocal turns, after
        turns, after = turns + 1, after + told.is_set()
        if turns >= 2 * ATTEMPTS:
            failed.set()
        if after > ATTEMPTS:
            done.set()
            return 0
        raise OperatorError("v", ValueError("bad price"))

    loop = loop_of(step)
    loop.start()
    assert failed.wait(10)
    assert loop.status.running
    with pytest.raises(OperatorError):
        loop.report()
    told.set()
    assert done.wait(10)
    loop.stop()  # and not: once more
    assert loop.status.failures >= 3 * ATTEMPTS


def test_a_source_that_cannot_be_read_is_reported_while_others_go_on() -> None:
    loop = loop_of(lambda: 0)
    ways = loop._ways
    assert isinstance(ways, FakeWays)
    ways.failing = {"s": SourceReadFailed("s", "the file is gone")}
    loop.start()
    assert ways.idle.wait(10)
    assert "the file is gone" in str(loop.status.error)
    with pytest.raises(SourceReadFailed):
        loop.stop()
    assert loop.status.failures == 1  # the same one is told once


def test_a_loop_that_its_listener_stops_does_not_end_the_next_one() -> None:
    at_last_epoch, may_end = threading.Event(), threading.Event()

    def step() -> int:
        if not at_last_epoch.is_set():
            loop.halt()  # as a listener does, on the thread of the loop
            at_last_epoch.set()
            may_end.wait(10)
        return 0

    loop = loop_of(step)
    loop.start()
    assert at_last_epoch.wait(10)
    first = loop._thread
    loop.start()
    may_end.set()
    assert first is not None
    first.join(10)
    assert not first.is_alive()
    assert loop.status.running
    loop.stop()
    assert not loop.status.running


def test_stopping_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.runtime.engine.background_loop._LEAST_PATIENCE", 0.0)
    stepping, may_end = threading.Event(), threading.Event()

    def step() -> int:
        stepping.set()
        assert may_end.wait(10)
        return 0

    loop = BackgroundLoop(FakeWays(), step, lambda: 0, lambda: 0.0)
    loop.start()
    assert stepping.wait(10)
    with pytest.raises(WriterBusy, match="the last epoch of the background loop"):
        loop.stop()
    assert not loop.status.running  # it is on its way out, and may be waiting for those who wait
    may_end.set()
    thread = loop._thread
    assert thread is not None
    thread.join(10)
    loop.stop()
    assert not loop.status.running


class Meeting(FakeWays):
    """Two who ask at the same time whether it runs meet there."""

    def __init__(self) -> None:
        self._runs = False
        self.meeting = threading.Barrier(2)
        super().__init__()

    @property
    def running(self) -> bool:
        with suppress(threading.BrokenBarrierError):
            self.meeting.wait(0.2)
        return self._runs

    @running.setter
    def running(self, runs: bool) -> None:
        self._runs = runs


def test_two_that_start_at_the_same_time_start_one_loop() -> None:
    loop = BackgroundLoop(Meeting(), lambda: 0, lambda: 0)
    before = [each for each in threading.enumerate() if each.name == LOOP]
    starting = [threading.Thread(target=loop.start) for _ in "12"]
    for each in starting:
        each.start()
    for each in starting:
        each.join(10)
    loops = [each for each in threading.enumerate() if each.name == LOOP and each not in before]
    loop.stop()
    assert len(loops) == 1


def test_several_may_stop_at_the_same_time() -> None:
    loop = loop_of(lambda: 0)
    for _ in range(30):
        loop.start()
        with ThreadPoolExecutor(4) as others:
            for each in [others.submit(loop.stop) for _ in range(4)]:
                each.result(10)
        assert not loop.status.running
