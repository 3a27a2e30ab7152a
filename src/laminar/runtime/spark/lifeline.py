"""What a database knows of the life of its Spark: that it is lost, and how to have another one.

Law: whoever waits for Spark waits no longer than Spark lives, and Spark that does not answer does
not live. It is asked once a second, on a connection of its own. After thirty tries in a row without
an answer, or five if the system does not let it run, it counts as hung. One of ours is killed then;
to one of a caller's the connections are cut, which on Linux ends all that waits for it. Tries are
counted, not seconds: a process that was itself asleep has not asked.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakValueDictionary, ref

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError

from laminar.errors import LaminarError, SparkLost
from laminar.runtime.spark.error_translation import SPARK_FAILS
from laminar.runtime.spark.java_process import JavaProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("laminar.spark")

_SECOND = 1.0

PATIENCE = 30
"""Tries without an answer until it counts as hung: a full collection of a large heap is shorter."""

PATIENCE_WITH_HALTED = 5
"""The same, if the system says that it does not run at all."""

PATIENCE_WITH_WORK = 60
"""So many seconds after Spark is known to be lost, work that waited for it has noticed."""


class Pulse:
    """Asks one Java process again and again whether it is there.

    Args:
        java: the process.
    """

    def __init__(self, java: JavaProcess) -> None:
        self._java = java
        self._missed = 0
        self.silence = ""
        """Why it counts as hung; "" while it does not."""
        self.ended = threading.Event()
        about = (ref(self), self.ended)
        threading.Thread(target=_feel, args=about, name="laminar-pulse", daemon=True).start()

    def feel(self) -> None:
        """Ask once; end what waits for one that has been silent for too long."""
        if self._java.ending() is not None:
            self.ended.set()
        elif self._java.answers(_SECOND):
            self._missed, self.silence = 0, ""
        else:
            self._missed += 1
            is_halted = self._java.is_halted()
            if self._missed >= (PATIENCE_WITH_HALTED if is_halted else PATIENCE):
                self._give_up(is_halted)

    def _give_up(self, is_halted: bool) -> None:
        why = "was halted by the system" if is_halted else "did not answer"
        if not self.silence:
            self.silence = f"its Java process {why} for {self._missed} s"
            _LOG.error("Spark is hung: %s", self.silence)
        if self._java.again is not None:
            self._java.kill(self.silence)
        else:
            self._java.cut()  # again and again: Py4J connects anew


def _feel(found: ref[Pulse], ended: threading.Event) -> None:
    """Feel a pulse as long as somebody wants to know it."""
    while not ended.wait(_SECOND):
        pulse = found()
        if pulse is None:
            return
        pulse.feel()
        del pulse


_PULSES: WeakValueDictionary[int, Pulse] = WeakValueDictionary()
"""Gateway of a process -> its pulse, which all databases on it share."""


class Lifeline:
    """Whether the Spark of one database is there, and another one in its place.

    Args:
        spark: the session that the database was given; None watches nothing.
    """

    starting: ClassVar[threading.Lock] = threading.Lock()
    """That one thread at a time starts a Spark in the place of one that is lost."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        self.generation = 0
        """How many Sparks there were before this one."""
        self._thread: int | None = None
        self._is_prepared = True
        self._left: Collection[Callable[[float], bool]] = ()
        self._hold(spark)

    def _hold(self, spark: SparkSession | None) -> None:
        self._spark = spark
        self._java = None if spark is None else JavaProcess.of(spark)
        self._again = None if self._java is None else self._java.again
        self._pulse = None if self._java is None else _pulse_of(self._java)

    @property
    def is_restarted(self) -> bool:
        """Whether another one is started in its place: Laminar has started this one."""
        return self._again is not None

    def loss(self) -> str | None:
        """Say why it is lost; None if, as far as is known, it is not."""
        found = self._death()
        if found is None and self.is_waited_for:
            return "what waited for it has not come back"
        return found or (None if self._is_prepared else "another one has not been prepared")

    def _death(self) -> str | None:
        if self._java is None or self._pulse is None:
            return None
        # First: that it did not answer is why it was killed.
        return self._pulse.silence or self._java.ending() or None

    def outlast(self, is_over: Callable[[float], bool]) -> None:
        """Wait until work is over that waits for Spark; it ends with it, or is left behind.

        A thread cannot be ended from outside. Where connections to a Spark that hangs cannot be
        cut, or a user's code does not come back, it is not waited for any longer; no call does
        anything then before it has come back after all, so it has nobody beside it.

        Args:
            is_over: waits for so many seconds, and tells whether it is.

        Raises:
            SparkLost: it is lost, and the work has not ended in time.
        """
        tries, why = 0, None
        while not is_over(_SECOND):
            why = self._death()
            tries = 0 if why is None else tries + 1
            if why is not None and tries >= PATIENCE_WITH_WORK:
                self._left = [*self._left, is_over]
                raise self.lost(f"{why}; what waited for it has not come back")

    @property
    def is_waited_for(self) -> bool:
        """Whether work that was left behind has not come back."""
        self._left = [each for each in self._left if not each(0.0)]
        return bool(self._left)

    def lost(self, why: str) -> SparkLost:
        """Return the error that says so."""
        return SparkLost(why, is_restarted=self.is_restarted)

    def check(self, errors: Iterable[BaseException] = ()) -> None:
        """Raise if it is lost; where these errors may come of that, look closely.

        Raises:
            SparkLost: it is.
        """
        behind = (why for error in errors if (why := self._behind(error)) is not None)
        why = self.loss() or next(behind, None)
        if why is not None:
            raise self.lost(why)

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Let whatever a lost Spark makes of a call come out as one error.

        Raises:
            SparkLost: it was lost meanwhile.
        """
        generation = self.generation
        try:
            yield
        except Exception as error:
            if not _is_foreign(error):
                raise
            why = self.loss() or self._behind(error)
            if generation != self.generation and self._thread != threading.get_ident():
                why = why or "another one was started meanwhile"
            if why is None:
                raise
            raise self.lost(why) from error

    @contextmanager
    def may_be_lost(self) -> Iterator[None]:
        """Let nothing come of what fails because it is lost: another one has that done anew."""
        try:
            with self.calls():
                yield
        except SparkLost:
            pass

    def _behind(self, error: BaseException) -> str | None:
        """Say why it is lost, if that is what is behind an error."""
        if self._java is None or not _is_foreign(error):
            return None
        if any(_is_of_connection(each) for each in _chain(error)) and self._java.ends():
            return self.loss() or "its Java process does not answer"
        if any(isinstance(each, SPARK_FAILS) for each in _chain(error)):
            return "its session was stopped" if self._java.was_stopped() else None
        return None

    def restart(self, renew: Callable[[SparkSession], object]) -> None:
        """Have another one, and go on with it; who fails here is asked again.

        Args:
            renew: moves the sessions of the database to it.
        """
        assert self._spark is not None
        if self._death() is not None:
            _LOG.warning("Spark is lost, another one is started: %s", self.loss())
            self._is_prepared = False
            self._hold(self._another())
        self.generation += 1
        self._thread = threading.get_ident()
        renew(self._spark)
        self._is_prepared = True

    def _another(self) -> SparkSession:
        assert self._again is not None
        with Lifeline.starting:
            if self._java is not None:
                self._java.leave()
            return self._again()

    def let_go(self) -> None:
        """Leave a Spark that is dead or hung, so that the caller can start another one.

        One of ours that does not run is ended: it would not notice that this process ends.
        """
        if self._java is not None:
            with Lifeline.starting:
                if self.is_restarted and self._java.is_halted():
                    self._java.kill("its Java process was halted by the system")
                is_hung = self._pulse is not None and bool(self._pulse.silence)
                self._java.leave(is_hung=is_hung)


def _pulse_of(java: JavaProcess) -> Pulse:
    with Lifeline.starting:
        found = _PULSES.get(id(java.gateway))
        if found is None or found.ended.is_set():
            found = _PULSES[id(java.gateway)] = Pulse(java)
        return found


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and all that is behind it."""
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and all(each is not other for other in found):
            found.append(each)
            left += [each.__cause__, each.__context__]
    return found


def _is_foreign(error: BaseException) -> bool:
    """Say whether something that is not ours is behind an error."""
    chain = _chain(error)
    is_known = any(isinstance(each, SparkLost) for each in chain[:1])
    return not is_known and not all(isinstance(each, LaminarError) for each in chain)


def _is_of_connection(error: BaseException) -> bool:
    """Say whether an error may be one of the way to Java, and not of what was asked there."""
    if isinstance(error, Py4JError):
        return not isinstance(error, Py4JJavaError)
    return isinstance(error, ConnectionError | EOFError | TimeoutError | PySparkRuntimeError)
