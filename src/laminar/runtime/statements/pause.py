"""What users say about views and sources: stay, and go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from laminar.mv import MvState

if TYPE_CHECKING:
    from laminar.mv.retry import Failure
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.epoch.outcome import EpochReport


def pause(engine: Engine, view: str) -> None:
    """Leave a view, its group and all that depend on it at the epoch they have."""
    with engine.ledger.turn(f"PAUSE {view}"):
        before = engine.defined.catalog.registry.view(view).state
        engine.defined.catalog.registry.set_state(view, MvState.PAUSED)
        try:
            engine.ledger.recommit()
        except BaseException:
            engine.defined.catalog.registry.set_state(view, before)
            raise


def resume(engine: Engine, view: str) -> EpochReport | None:
    """Let a view move again, and bring it to the newest epoch at once.

    If it fails, a paused view stays paused; one that was suspended waits for its retries. If others
    fail, it has been brought there, and goes on.
    """
    with engine.ledger.turn(f"RESUME {view}"):
        registry = engine.defined.catalog.registry
        while engine.replay():  # its rows are taken by no other epoch
            pass
        was = registry.view(view).state
        registry.set_state(view, MvState.RUNNING)
        is_noted = False
        try:
            _forgive(engine, view)
            is_noted = True
            report = engine.catch_up([view]) if engine.scheduler.can_move(view) else None
        except Exception:
            is_there = engine.scheduler.cursor(view) == engine.ledger.epoch
            if was is MvState.PAUSED and not (is_noted and is_there):
                registry.set_state(view, was)
                _forgive(engine, view)
            raise
        return report


def gate(engine: Engine, source: str, *, closed: bool) -> None:
    """Keep the rows of a source from all views, or let them see all that came meanwhile."""
    with engine.ledger.turn(f"{'PAUSE' if closed else 'RESUME'} {source}"):
        scheduler = engine.scheduler
        before = scheduler.progress.gated
        gated = before | {source} if closed else before - {source}
        with scheduler.with_progress(replace(scheduler.progress, gated=gated)):
            engine.ledger.recommit()
    if not closed:
        engine.returns.now(source)


def _forgive(engine: Engine, view: str) -> None:
    """Forget how often a view has failed."""
    scheduler = engine.scheduler
    left: Mapping[str, Failure] = {
        name: each for name, each in scheduler.progress.failures.items() if name != view
    }
    with scheduler.with_progress(replace(scheduler.progress, failures=left)):
        engine.ledger.recommit()
