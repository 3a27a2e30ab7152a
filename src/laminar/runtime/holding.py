"""Views that stay where they are while others go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from laminar.model.trace import Trace
from laminar.mv import MvState
from laminar.runtime.executor import named_error
from laminar.runtime.relations import partial_trace, pending_trace

if TYPE_CHECKING:
    from laminar.runtime.engine import Engine


class Holding:
    """Which views are held, and since when."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.since: dict[str, int] = dict(engine.manifest.state.get("held", {}))
        """View -> the epoch it is held at."""

    def note(self, epoch: int) -> None:
        """Remember since when views are held, as an epoch is committed."""
        self.since = {name: self.since.get(name, epoch) for name in self.held()}

    @property
    def paused(self) -> frozenset[str]:
        """Views that the user has paused."""
        return frozenset(
            view.name
            for view in self._engine.catalog.registry.views()
            if view.state is MvState.PAUSED
        )

    def held(self) -> frozenset[str]:
        """Paused views and all that depend on them: none may see a version the others lack."""
        registry = self._engine.catalog.registry
        return frozenset(
            name for paused in self.paused for name in (paused, *registry.all_dependents(paused))
        )

    def pause(self, name: str) -> None:
        """Leave a view and its dependents at the epoch they have."""
        engine = self._engine
        with engine.lock:
            engine.catalog.registry.set_state(name, MvState.PAUSED)
            traces = dict(engine.manifest.traces)
            for each in self.held() & engine.catalog.relations.fused:
                # It has rows by definition only, and those would move on with its inputs.
                if any(
                    part not in engine.own(each)
                    for part in engine.catalog.programs[each].output.reads
                ):
                    traces = engine.filler.store_rows(
                        each, engine.catalog.relations, traces, engine.manifest.epoch
                    )
            engine.commit(engine.manifest.epoch, traces, engine.manifest.offsets)
            engine.plan_storage()

    def resume(self, name: str) -> None:
        """Bring a paused view and its dependents to the current epoch, all or none."""
        engine = self._engine
        with engine.lock:
            held = self.held()
            engine.catalog.registry.set_state(name, MvState.RUNNING)
            due = [
                each for each in engine.catalog.registry.topo_order() if each in held - self.held()
            ]
            try:
                traces: Mapping[str, Trace] = engine.manifest.traces
                for each in due:
                    own = engine.own(each)
                    mine = own | {partial_trace(part) for part in own} | {pending_trace(each)}
                    traces = {key: trace for key, trace in traces.items() if key not in mine}
                    traces = engine.filled(engine.catalog.programs[each], traces)
            except Exception as error:
                engine.catalog.registry.set_state(name, MvState.PAUSED)
                raise named_error(name, error) from error
            engine.commit(engine.manifest.epoch, traces, engine.manifest.offsets)
            engine.publisher.catch_up()
