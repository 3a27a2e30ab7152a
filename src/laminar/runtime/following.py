"""Readers beside a writer: an engine that is read only moves to whatever was committed last.

It takes no lock and writes nothing. Every query sees one committed manifest, the newest at the time
it is asked; definitions are compiled anew only when they have changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laminar.model.trace import Manifest
from laminar.runtime.visible import Visible

if TYPE_CHECKING:
    from laminar.runtime.engine import Engine

POLL_SECONDS = 0.2
"""How often somebody who waits for an epoch looks whether there is one."""


def follow(engine: Engine) -> None:
    """Move to the newest epoch, if there is a newer one."""
    with engine.lock:
        before = engine.manifest
        if not engine.timeline.refresh():
            return
        now = engine.manifest
        engine.moved(defined_anew=_defined(before) != _defined(now))
        engine.show(as_stored(engine, now))


def as_stored(engine: Engine, manifest: Manifest) -> Visible:
    """Return an epoch with its relations stored as the writer has stored them."""
    engine.catalog.relations = replace(
        engine.catalog.relations,
        fused=frozenset(manifest.state.get("fused", ())),
        finished=frozenset(manifest.traces),
    )
    return Visible(manifest, engine.catalog)


def _defined(manifest: Manifest) -> Any:
    state = manifest.state
    return manifest.catalog, state.get("paused"), state.get("sinks"), state.get("settings")
