"""Readers beside a writer: an engine that is read only moves to whatever was committed last.

It takes no lock and writes nothing. Every query sees one committed manifest, the newest at the time
it is asked; definitions are compiled anew only when they have changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laminar.checkpoint.restore import numbers
from laminar.model.trace import Manifest
from laminar.runtime.catalog.settings import Settings
from laminar.runtime.engine.open import define
from laminar.runtime.history.snapshot import Snapshot
from laminar.runtime.scheduling.scheduler import ViewScheduler
from laminar.store import PendingLog

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine

POLL_SECONDS = 0.2
"""How often somebody who waits for an epoch looks whether there is one."""


def follow(engine: Engine) -> None:
    """Move to the newest epoch, if there is a newer one."""
    with engine.lock:
        before = engine.manifest
        if not engine.timeline.refresh():
            return
        now = engine.manifest
        _move(engine, defined_anew=_defined(before) != _defined(now))
        engine.show(as_stored(engine, now))


def _move(engine: Engine, *, defined_anew: bool) -> None:
    """Take over what another process has committed, and compile what it has defined."""
    engine.settings = Settings(engine.manifest.state.settings)
    engine.scheduler = ViewScheduler(engine)
    engine.pending = PendingLog(engine.root, numbers(engine.manifest))
    if defined_anew:
        define(engine)
    else:
        # Whoever reads the last epoch goes on with what belongs to it.
        engine.catalog = engine.catalog.copy()
        engine.time.restore(engine.manifest)


def as_stored(engine: Engine, manifest: Manifest) -> Snapshot:
    """Return an epoch with its relations stored as the writer has stored them."""
    engine.catalog.relations = replace(
        engine.catalog.relations,
        fused=manifest.state.fused,
        finished=frozenset(manifest.traces),
    )
    return Snapshot(manifest, engine.catalog)


def _defined(manifest: Manifest) -> Any:
    state = manifest.state
    return manifest.catalog, state.paused, state.sinks, state.settings
