"""Readers beside a writer: an engine that is read only moves to whatever was committed last.

It writes nothing, and has no turn. Every query sees one committed manifest, the newest at the time
it is asked; definitions are compiled anew only when they have changed.
"""

from __future__ import annotations

import threading
from typing import Any

from laminar.checkpoint.restore import numbers
from laminar.model.trace import Manifest
from laminar.runtime.catalog.settings import Settings
from laminar.runtime.engine.apply_settings import AppliedSettings
from laminar.runtime.engine.open import define
from laminar.runtime.engine.parts import Parts
from laminar.runtime.history.timeline import Snapshot
from laminar.runtime.spark.session import use_settings


class Follower:
    """Moves an engine to what another process has committed; one of its readers at a time."""

    def __init__(self, engine: Parts, settings: AppliedSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._moving = threading.Lock()

    def follow(self) -> None:
        """Move to the newest epoch, if there is a newer one."""
        engine = self._engine
        with self._moving:
            before = engine.ledger.manifest
            if not engine.ledger.timeline.refresh():
                return
            now = engine.ledger.manifest
            _move(engine, self._settings, defined_anew=_defined(before) != _defined(now))
            engine.show(as_stored(engine, now))


def _move(engine: Parts, settings: AppliedSettings, *, defined_anew: bool) -> None:
    """Take over what another process has committed, and compile what it has defined."""
    engine.defined.settings = Settings(engine.ledger.manifest.state.settings)
    use_settings(engine.env.spark, engine.ledger.manifest.state.spark)
    engine.scheduler.restore()
    engine.ledger.pending.reload(numbers(engine.ledger.manifest))
    if defined_anew:
        define(engine, settings)
    else:
        # Whoever reads the last epoch goes on with what belongs to it.
        engine.defined.catalog = engine.defined.catalog.copy()
        engine.time.restore(engine.ledger.manifest)


def as_stored(engine: Parts, manifest: Manifest) -> Snapshot:
    """Return an epoch with its relations stored as the writer has stored them."""
    catalog = engine.defined.catalog
    catalog.relations = catalog.relations.stored_in(manifest)
    return Snapshot(manifest, catalog)


def _defined(manifest: Manifest) -> Any:
    state = manifest.state
    return (
        manifest.catalog,
        state.paused,
        state.sinks,
        state.settings,
        state.spark,
        state.functions,
        state.schemas,
    )
