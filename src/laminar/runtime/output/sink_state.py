"""Where a sink stands, and what to do with it: decisions, made from its errors, its lag and a time.

    running --fails--> retrying (away, if there is no connector) --succeeds--> running
    any --too far behind--> suspended --RESUME--> running
    any --PAUSE--> paused --RESUME--> running

Law: a sink that fails is tried again after a wait that doubles up to a bound, for ever; one that is
paused or suspended is not called until somebody resumes it, whatever else happens to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from laminar.runtime.output.sink_definition import MAX_LAG, LagRule
from laminar.store.cursors import Cursor


class SinkMode(StrEnum):
    """What a sink does; the value is what system tables say."""

    RUNNING = "running"
    RETRYING = "retrying"
    AWAY = "away"
    """It has no connector: that could not be built, or its Python code is not back."""
    SUSPENDED = "suspended"
    PAUSED = "paused"


_STOPPED = (SinkMode.SUSPENDED, SinkMode.PAUSED)
_FAILING = (SinkMode.RETRYING, SinkMode.AWAY)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a sink that fails is left alone, in seconds."""

    first: float = 1.0
    most: float = 60.0

    def delay(self, attempts: int) -> float:
        """Return the wait after so many failures in a row."""
        # Bounded before it is raised: a sink may fail for weeks.
        return float(min(self.most, self.first * 2 ** min(attempts - 1, 32)))


@dataclass(frozen=True, slots=True)
class SinkState:
    """Where one sink stands, but for how far it has come."""

    mode: SinkMode = SinkMode.RUNNING
    reason: str = ""
    attempts: int = 0
    """Failures in a row."""
    retry_at: float = 0.0
    """When it is tried again, by the clock of whoever asks."""
    resumed_at: int = 0
    """The epoch it was last resumed in: what it had missed by then does not count as lag."""

    @property
    def is_stopped(self) -> bool:
        """Whether it is not called until somebody resumes it."""
        return self.mode in _STOPPED

    @property
    def is_failing(self) -> bool:
        """Whether it failed the last time it was tried."""
        return self.mode in _FAILING

    def wait(self, now: float) -> float | None:
        """Return for how many seconds it is not called; None if until it is resumed."""
        return None if self.is_stopped else max(0.0, self.retry_at - now)

    def failed(self, reason: str, now: float, backoff: Backoff, *, is_away: bool) -> SinkState:
        """Return where it stands after a failure."""
        if self.is_stopped:
            return self
        attempts = self.attempts + 1
        mode = SinkMode.AWAY if is_away else SinkMode.RETRYING
        return SinkState(mode, reason, attempts, now + backoff.delay(attempts), self.resumed_at)

    def succeeded(self) -> SinkState:
        """Return where it stands after an epoch was taken."""
        return self if self.is_stopped else SinkState(resumed_at=self.resumed_at)

    def level(self) -> SinkState:
        """Return where it stands when it has taken all there is."""
        return self if self.is_stopped else SinkState()

    def paused(self) -> SinkState:
        """Return where it stands after PAUSE SINK."""
        return SinkState(SinkMode.PAUSED, "PAUSE SINK was said", resumed_at=self.resumed_at)

    def resumed(self, epoch: int) -> SinkState:
        """Return where it stands after RESUME SINK in an epoch."""
        return SinkState(resumed_at=epoch)

    def lag(self, taken: int, reach: int) -> int:
        """Return how many epochs it has been behind since it was created or resumed."""
        return max(0, reach - max(taken, self.resumed_at))

    def judged(self, lag: int, rule: LagRule) -> SinkState:
        """Return where it stands now that it is so many epochs behind."""
        if self.mode is SinkMode.SUSPENDED or rule.holds or not 0 < rule.most < lag:
            return self
        why = f"it is {lag} epochs behind, more than {MAX_LAG} = {rule.most}"
        reason = f"{why}; before that: {self.reason}" if self.reason else why
        return SinkState(SinkMode.SUSPENDED, reason, self.attempts, resumed_at=self.resumed_at)

    def about(self, from_epoch: int, next_try_ms: int | None) -> dict[str, str]:
        """Return what a cursor keeps of it; nothing of one that is well.

        Args:
            from_epoch: where the sink begins, by which it is told from others of its name.
            next_try_ms: when it is tried again, by the wall clock.
        """
        if self == SinkState():
            return {}
        told = {
            "from": str(from_epoch),
            "mode": self.mode.value,
            "reason": self.reason,
            "attempts": str(self.attempts),
            "resumed_at": str(self.resumed_at),
        }
        return told if next_try_ms is None else {**told, "next_try": str(next_try_ms)}


def stored_state(about: Mapping[str, str], from_epoch: int) -> SinkState:
    """Return where a sink stood when its cursor was written; another one of its name is well."""
    if about.get("from") != str(from_epoch):
        return SinkState()
    return SinkState(
        SinkMode(about["mode"]),
        about["reason"],
        int(about["attempts"]),
        resumed_at=int(about["resumed_at"]),
    )


def opened(stored: SinkState) -> SinkState:
    """Return where a sink stands when its database is opened: one that failed is tried at once."""
    return stored if stored.is_stopped else SinkState(resumed_at=stored.resumed_at)


def holds(state: SinkState, lag: int, rule: LagRule) -> bool:
    """Whether epochs have to wait for a sink."""
    return rule.holds and 0 < rule.most <= lag and state.mode is not SinkMode.SUSPENDED


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """Where a sink stands, as it is shown."""

    state: str
    reason: str | None
    epoch: int | None
    """The last epoch it has taken."""
    lag_epochs: int
    """How many epochs what it reads is ahead of it."""
    attempts: int
    next_try_ms: int | None
    """When it is tried again, by the wall clock; None if it does not wait for that."""


def lag_of(taken: int | None, reach: int, from_epoch: int) -> int:
    """Return how many epochs a relation is ahead of a sink that began in an epoch."""
    return max(0, reach - (from_epoch - 1 if taken is None else taken))


def stored_status(cursor: Cursor | None, from_epoch: int, reach: int) -> SinkStatus:
    """Return where a sink stood when its cursor was written, for whoever only has the files.

    Args:
        cursor: as it is stored.
        from_epoch: where the sink begins.
        reach: the epoch that what it reads is at.
    """
    about = cursor.about if cursor is not None else {}
    taken = cursor.epoch if cursor is not None and cursor.epoch >= from_epoch else None
    state, lag = stored_state(about, from_epoch), lag_of(taken, reach, from_epoch)
    next_try = int(about["next_try"]) if state.is_failing and "next_try" in about else None
    return shown(state, taken, lag, next_try)


def shown(
    state: SinkState, epoch: int | None, lag: int, next_try_ms: int | None, away: str = ""
) -> SinkStatus:
    """Return where a sink stands, as it is shown.

    Args:
        state: as it is kept.
        epoch: the last epoch it has taken.
        lag: how many epochs it is behind.
        next_try_ms: when it is tried again, by the wall clock.
        away: why it is not called though nothing has gone wrong.
    """
    if away and state.mode is SinkMode.RUNNING:
        state = replace(state, mode=SinkMode.AWAY, reason=away)
    return SinkStatus(
        state.mode.value, state.reason or None, epoch, lag, state.attempts, next_try_ms
    )
