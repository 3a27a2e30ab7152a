"""When a Spark counts as lost, and what is made of calls that meet it; no Java is started here."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from laminar.errors import OperatorError, SparkLost, UnknownColumn
from laminar.runtime.spark import java_process
from laminar.runtime.spark.java_process import JavaProcess
from laminar.runtime.spark.lifeline import (
    PATIENCE,
    PATIENCE_WITH_HALTED,
    PATIENCE_WITH_WORK,
    Lifeline,
    Pulse,
)


class Java:
    """A process as a test wants it."""

    def __init__(self, *, ours: bool = True) -> None:
        self.gateway = object()
        self.again: Callable[[], Any] | None = (lambda: self) if ours else None
        self.is_up, self.halted, self.stopped = True, False, False
        self.end: str | None = None
        self.done: list[str] = []

    def ending(self) -> str | None:
        return self.end

    def ends(self) -> bool:
        return self.end is not None

    def was_stopped(self) -> bool:
        return self.stopped

    def answers(self, _within: float = 1.0) -> bool:
        return self.is_up

    def is_halted(self) -> bool:
        return self.halted

    def kill(self, why: str) -> None:
        self.done.append("kill")
        self.end = why

    def cut(self) -> None:
        self.done.append("cut")

    def leave(self, *, is_hung: bool = False) -> None:
        self.done.append("leave hung" if is_hung else "leave")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Java, Lifeline]]:
    """A process, and the lifeline of a database on it."""

    def make(**about: Any) -> tuple[Java, Lifeline]:
        java = Java(**about)
        monkeypatch.setattr(JavaProcess, "of", lambda found: found)
        lifeline = Lifeline(java)  # type: ignore[arg-type]
        pulse = lifeline._pulse
        assert pulse is not None
        pulse.ended.set()  # felt by hand
        return java, lifeline

    return make


def felt(lifeline: Lifeline, times: int) -> Pulse:
    pulse = lifeline._pulse
    assert pulse is not None
    for _ in range(times):
        pulse.feel()
    return pulse


@pytest.mark.parametrize(("halted", "patience"), [(False, PATIENCE), (True, PATIENCE_WITH_HALTED)])
def test_one_of_ours_that_does_not_answer_is_killed(
    made: Callable[..., tuple[Java, Lifeline]], halted: bool, patience: int
) -> None:
    java, lifeline = made()
    java.halted, java.is_up = halted, False
    felt(lifeline, patience - 1)
    java.is_up = True
    felt(lifeline, 1)  # it was only busy
    java.is_up = False
    felt(lifeline, patience - 1)
    assert (lifeline.loss(), java.done) == (None, [])
    felt(lifeline, 1)
    assert java.done == ["kill"]
    assert f"for {patience} s" in str(lifeline.loss())


def test_a_callers_is_cut_off_until_it_answers(
    made: Callable[..., tuple[Java, Lifeline]],
) -> None:
    java, lifeline = made(ours=False)
    java.is_up = False
    felt(lifeline, PATIENCE + 2)
    assert java.done == ["cut"] * 3  # who connects anew is cut off again
    with pytest.raises(SparkLost, match="new session"):
        lifeline.check()
    java.is_up = True
    felt(lifeline, 1)
    lifeline.check()


def test_one_of_ours_that_is_halted_does_not_outlive_the_database(
    made: Callable[..., tuple[Java, Lifeline]],
) -> None:
    for ours, done in ((True, ["kill", "leave"]), (False, ["leave"])):
        java, lifeline = made(ours=ours)
        java.halted = True
        lifeline.let_go()
        assert java.done == done


def test_a_callers_that_hangs_is_left_so_that_another_one_can_be_started(
    made: Callable[..., tuple[Java, Lifeline]],
) -> None:
    java, lifeline = made(ours=False)
    java.is_up = False
    felt(lifeline, PATIENCE)
    lifeline.let_go()
    assert java.done == ["cut", "leave hung"]


def test_work_is_waited_for_as_long_as_spark_lives_and_a_little_longer(
    made: Callable[..., tuple[Java, Lifeline]],
) -> None:
    java, lifeline = made(ours=False)
    tries = 0

    def is_over(_seconds: float) -> bool:
        nonlocal tries
        tries += 1
        if tries == 3 * PATIENCE_WITH_WORK:
            java.end = "its Java process was killed by signal 9"
        return java.end is not None and not lifeline.loss()

    with pytest.raises(SparkLost, match=r"signal 9; what waited"):
        lifeline.outlast(is_over)
    assert tries == 4 * PATIENCE_WITH_WORK - 1
    assert lifeline.is_waited_for
    lifeline._left = [lambda _seconds: True]
    assert not lifeline.is_waited_for


def error_of(call: Callable[[], Any], lifeline: Lifeline) -> BaseException:
    with pytest.raises(Exception) as found, lifeline.calls():  # noqa: PT011
        call()
    return found.value


def raising(error: BaseException, behind: BaseException | None = None) -> Callable[[], Any]:
    def call() -> None:
        if behind is None:
            raise error
        try:
            raise behind
        except BaseException:
            raise error from None

    return call


def test_what_a_lost_spark_makes_of_a_call_is_one_error(
    made: Callable[..., tuple[Java, Lifeline]],
) -> None:
    java, lifeline = made()
    ours, theirs = UnknownColumn("a", ["b"]), ValueError("x")
    assert error_of(raising(ours), lifeline) is ours
    assert error_of(raising(theirs), lifeline) is theirs
    network = Py4JNetworkError("no answer")
    assert error_of(raising(network), lifeline) is network  # it lives: that was something else
    java.end = "its Java process was killed by signal 9"
    assert error_of(raising(ours), lifeline) is ours  # true whether Spark is there or not
    for call in (
        raising(theirs),
        raising(EOFError()),
        raising(OperatorError("v", ValueError("x")), behind=network),
    ):
        found = error_of(call, lifeline)
        assert isinstance(found, SparkLost)
        assert found.is_restarted
        assert "signal 9" in found.detail


def test_a_session_that_was_stopped_in_java_is_lost_too(
    made: Callable[..., tuple[Java, Lifeline]],
) -> None:
    from pyspark.errors import PySparkException

    java, lifeline = made(ours=False)
    error = PySparkException("Cannot call methods on a stopped SparkContext")
    assert error_of(raising(error), lifeline) is error
    java.stopped = True
    found = error_of(raising(error), lifeline)
    assert isinstance(found, SparkLost)
    assert "stopped" in found.detail
    assert not found.is_restarted


def test_a_restart_that_fails_is_made_again(made: Callable[..., tuple[Java, Lifeline]]) -> None:
    java, lifeline = made()
    java.end = "killed"
    other, moved = Java(), list[object]()
    java.again = None  # what it was held with is what counts

    def fail(_spark: object) -> None:
        raise Py4JNetworkError("killed as well")

    lifeline._again = lambda: other  # type: ignore[assignment]
    with pytest.raises(Py4JNetworkError):
        lifeline.restart(fail)
    assert lifeline.loss() == "another one has not been prepared"
    lifeline.restart(moved.append)
    assert (moved, lifeline.loss(), java.done) == ([other], None, ["leave"])
    pulse = lifeline._pulse
    assert pulse is not None
    pulse.ended.set()


def test_nobody_is_asked_where_there_is_no_process() -> None:
    lifeline = Lifeline()
    lifeline.check([Py4JNetworkError("x")])
    assert lifeline.loss() is None


def test_whoever_filled_a_session_is_told_unless_it_is_gone() -> None:
    class Session:
        """Stands for one of Spark's."""

    class Cache:
        def __init__(self, told: list[str], name: str) -> None:
            self.told, self.name = told, name

        def forget(self) -> None:
            self.told.append(self.name)

    session, told = Session(), list[str]()
    stays, goes = Cache(told, "stays"), Cache(told, "goes")
    for each in (stays, goes):
        java_process.on_renewal(session, each.forget)  # type: ignore[arg-type]
    del goes, each
    gc.collect()
    java_process.refill(session)  # type: ignore[arg-type]
    assert told == ["stays"]


@pytest.mark.parametrize(
    ("status", "said"),
    [(-9, "killed by signal 9"), (3, "ran out of memory"), (52, "ran out of memory"), (1, "1")],
)
def test_how_a_process_ended(status: int, said: str) -> None:
    assert said in java_process._told(status)


SILENT = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
found = server.accept()[0]
print("accepted", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="connections are found in /proc")
def test_connections_to_a_process_that_is_halted_are_cut_and_no_others() -> None:
    child = subprocess.Popen([sys.executable, "-c", SILENT], stdout=subprocess.PIPE, text=True)
    left, right = socket.socketpair()
    try:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as waits:
            assert child.stdout.readline() == "accepted\n"
            java = object.__new__(JavaProcess)
            java.pid = child.pid
            assert not java.is_halted()
            os.kill(child.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert java.is_halted()
            waits.settimeout(10)
            # Nobody accepts this one: it waits at the door.
            with socket.create_connection(("127.0.0.1", port)) as anew:
                anew.settimeout(10)
                java.cut()
                for each in (waits, anew):
                    assert each.recv(1) == b""  # it would have waited for ever
        left.sendall(b"x")
        assert right.recv(1) == b"x"
    finally:
        left.close()
        right.close()
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
