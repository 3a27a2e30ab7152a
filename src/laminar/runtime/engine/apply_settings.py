"""Settings take effect: each is handed to the part of the engine that it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laminar.runtime.catalog.settings import Settings
from laminar.runtime.engine.parts import Parts
from laminar.runtime.output.sink_state import Backoff
from laminar.runtime.output.sink_waits import SinkLimits

_LIMITS = ("future_ms", "late_rows_kept", "aging_rows")
"""Limits of event time that have a setting of their name."""


class AppliedSettings:
    """Follows the settings of an engine; without one, what `connect` was asked for counts."""

    def __init__(self, engine: Parts) -> None:
        self._engine = engine
        self._first = replace(engine.defined.time_settings)

    def change(self, settings: Settings) -> None:
        """Use other settings from now on, and remember them."""
        engine = self._engine
        with engine.changing("SET"):
            before, engine.defined.settings = engine.defined.settings, settings
            try:
                self.apply()
                engine.work.executor.forget()
                engine.ledger.recommit()
            except BaseException:
                engine.defined.settings = before
                self.apply()
                raise

    def text(self, name: str) -> str:
        """Return the value that counts: what was set, or what the caller of `connect` asked for."""
        limit = getattr(self._engine.defined.time_settings, name, None)
        return self._engine.defined.settings.text(name) if limit is None else str(limit)

    def apply(self) -> None:
        """Hand every setting to where it is used, except those that are asked for when used."""
        engine, limits = self._engine, self._engine.defined.time_settings
        number, given = engine.defined.settings.number, engine.defined.settings.given
        engine.defined.catalog.limit_fan_out(number("max_fan_out"))
        engine.ledger.timeline.retained = number("retained_epochs")
        engine.ledger.compactor.fanout = number("compaction_fanout")
        engine.ledger.turn.timeout_ms = number("writer_timeout_ms")
        engine.outputs.sinks.waits.limits = _sink_limits(number)
        engine.work.inlets.heed_timeouts()
        engine.env.workspaces.furnish(number("epochs_in_flight"), number("collect_limit_rows"))
        for name in _LIMITS:
            setattr(limits, name, number(name) if name in given else getattr(self._first, name))
        idle = number("idle_timeout_ms") or None
        limits.idle_timeout_ms = idle if "idle_timeout_ms" in given else self._first.idle_timeout_ms
        engine.time.configure(engine.defined.tables())


def _sink_limits(number: Callable[[str], int]) -> SinkLimits:
    backoff = Backoff(number("sink_backoff_ms") / 1000, number("sink_backoff_most_ms") / 1000)
    return SinkLimits(number("sink_wait_ms") / 1000, number("sink_timeout_ms") / 1000, backoff)
