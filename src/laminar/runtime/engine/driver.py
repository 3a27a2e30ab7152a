"""Who drives epochs, and who hears of them: a caller, `drain`, or the loop in the background."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.errors import (
    DatabaseClosed,
    OperatorError,
    SourceError,
    WriterBusy,
    WriteWithinEpoch,
)
from laminar.runtime.engine.background_loop import BackgroundLoop
from laminar.runtime.epoch.outcome import EpochReport, SinkReport

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine

_AT_A_TIME = 8
"""Epochs that the loop runs before it looks whether it should stop."""

_NO_TURN = (DatabaseClosed, WriterBusy, WriteWithinEpoch)
"""If nothing was committed, it is not for the caller to tell anybody of what others did."""


class Driver:
    """Runs epochs of an engine; then sinks and listeners hear of each that is committed.

    They are a user's code, so nobody is told before the writer's turn is over. On return, and also
    if something fails, sinks that keep up have taken what is committed and the listeners have been
    called, in the order of the epochs. The loop in the background waits for no sink.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.listeners: list[Callable[[EpochReport], object]] = []
        self.loop = BackgroundLoop(
            engine.work.inlets,
            self._ready,
            lambda: engine.ledger.epoch,
            lambda: engine.ledger.turn.patience,
        )

    def told(self, run: Callable[[], EpochReport | None]) -> EpochReport | None:
        """Run an epoch, and tell of it also if a view failed and the others moved."""
        committed: list[EpochReport] = []

        def once() -> None:
            report = run()
            if report is not None:
                committed.append(report)

        self._told(once, committed)
        return committed[-1] if committed else None

    def in_order(self, run: Callable[[], EpochReport | None]) -> EpochReport | None:
        """Run epochs that were logged before, each told of by itself, and then this one."""
        while self._engine.has_logged():
            self.told(self._engine.step)
        return self.told(run)

    def drain(self) -> EpochReport | None:
        """Run epochs until there is nothing to do; return the last report.

        A view that fails, or a source that cannot be read, does not keep the others from going on;
        its error is raised at the end.
        """
        last: EpochReport | None = None
        failed: OperatorError | SourceError | None = None
        while True:
            committed: list[EpochReport] = []
            try:
                self._flow(committed)
            except OperatorError as error:
                failed = failed or error
            except SourceError as error:
                failed = failed or error
                if not committed:
                    break  # it is asked each time
            else:
                if not committed:
                    break
            last = committed[-1] if committed else last
        if failed is not None:
            if isinstance(failed, SourceError):
                failed.report = last
            raise failed
        return last

    def _ready(self) -> int:
        """Step over what the bridges have ready; the loop calls this. Return how often."""
        committed: list[EpochReport] = []
        if self._engine.outputs.sinks.waits.holding() is not None:
            return 0  # a sink that takes something wakes the loop
        # What listeners raise is kept: the epoch is committed, whatever they do.
        self._flow(committed, _AT_A_TIME, whole=False, keep=self.loop.keep)
        return len(committed)

    def _flow(
        self,
        committed: list[EpochReport],
        limit: int = 32,
        *,
        whole: bool = True,
        keep: Callable[[Exception], object] | None = None,
    ) -> None:
        limit = 1 if self._engine.outputs.sinks.waits.holds_any else limit
        self._told(lambda: self._engine.flow(committed.append, limit, whole=whole), committed, keep)

    def _told(
        self,
        run: Callable[[], object],
        committed: list[EpochReport],
        keep: Callable[[Exception], object] | None = None,
    ) -> None:
        """Run epochs, then tell of all that were committed; raise what went wrong first.

        Args:
            run: has the writer's turn, and adds to `committed`.
            committed: the reports so far; one that an error carries is added.
            keep: takes what listeners raise; otherwise that is raised, too.
        """
        failed: list[Exception] = []
        self._engine.have_spark()
        if keep is None:
            self._engine.outputs.sinks.waits.make_room()
        try:
            with self._engine.calls():
                run()
        except Exception as error:
            if isinstance(error, _NO_TURN) and not committed:
                raise
            failed.append(error)
            if isinstance(error, OperatorError | SourceError):
                _add(error, committed)
        self._engine.work.inlets.commit_offsets(is_waiting=keep is None)
        if keep is None:  # the loop waits for nobody
            self._engine.outputs.sinks.waits.settle()
            committed[:] = [replace(each, sinks=self._behind(each.epoch)) for each in committed]
        self._engine.work.inlets.health.note()
        self._tell(committed, keep or failed.append)
        if failed:
            raise failed[0]

    def _behind(self, epoch: int) -> dict[str, SinkReport]:
        """Tell which sinks have not taken an epoch that what they read has reached."""
        found = self._engine.outputs.sinks.progress.statuses()
        return {
            name: SinkReport(name, each.epoch, each.state, each.reason)
            for name, each in found.items()
            if each.lag_epochs and (each.epoch is None or each.epoch < epoch)
        }

    def _tell(self, committed: list[EpochReport], keep: Callable[[Exception], object]) -> None:
        for report in committed:
            for listener in tuple(self.listeners):
                try:
                    listener(report)
                except Exception as error:
                    keep(error)


def _add(error: OperatorError | SourceError, committed: list[EpochReport]) -> None:
    """Let the error know the last epoch that was committed, and tell of it if nobody has."""
    if error.report is None:
        error.report = committed[-1] if committed else None
    elif error.report not in committed:
        committed.append(error.report)
