"""Who drives epochs, and who hears of them: a caller, `drain`, or the loop in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from laminar.errors import OperatorError
from laminar.runtime.engine.background_loop import BackgroundLoop
from laminar.runtime.epoch.report import EpochReport

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine

_AT_A_TIME = 8
"""Epochs that the loop runs before it looks whether it should stop."""


class Driver:
    """Runs epochs of an engine, and tells every listener of each that is committed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.listeners: list[Callable[[EpochReport], object]] = []
        self.loop = BackgroundLoop(engine.work.inlets, self._ready, lambda: engine.ledger.epoch)

    def told(self, run: Callable[[], EpochReport | None]) -> EpochReport | None:
        """Run an epoch; the listeners hear of it also if a view failed and the others moved."""
        try:
            report = run()
        except OperatorError as error:
            if error.report is not None:
                self._tell(error.report)
            raise
        if report is not None:
            self._tell(report)
        return report

    def drain(self) -> EpochReport | None:
        """Run epochs until there is nothing to do; return the last report.

        A view that fails does not keep the others from going on; its error is raised at the end.
        """
        last: EpochReport | None = None
        failed: OperatorError | None = None

        def committed(report: EpochReport) -> None:
            nonlocal last
            last = report
            self._tell(report)

        while True:
            try:
                if not self._engine.flow(committed):
                    break
            except OperatorError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return last

    def _tell(self, report: EpochReport) -> None:
        for listener in self.listeners:
            listener(report)

    def _ready(self) -> int:
        """Step over what the bridges have ready; the loop calls this. Return how often."""
        done = 0

        def committed(report: EpochReport) -> None:
            nonlocal done
            done += 1
            for listener in self.listeners:
                try:
                    listener(report)
                except Exception as error:
                    self.loop.keep(error)  # the epoch is committed, whatever its listeners do

        self._engine.flow(committed, limit=_AT_A_TIME, whole=False)
        return done
