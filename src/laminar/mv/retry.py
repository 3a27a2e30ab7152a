"""What becomes of a view that fails: it is tried again, less and less often, and then no more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a view stands that failed the last time it was tried."""

    count: int
    """Failures in a row."""
    reason: str
    failed_at_ms: int
    retry_at_ms: int
    is_suspended: bool = False
    """It is not tried any more until somebody resumes it."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a failing view waits.

    The first retry comes with the next epoch: the row that was wrong may have been taken back by
    then. After that the wait doubles from `base_ms` up to `most_ms`.
    """

    base_ms: int = 1000
    most_ms: int = 300_000
    limit: int = 5
    """After so many failures in a row a view is suspended."""

    def delay_ms(self, count: int) -> int:
        """Return how long to wait after so many failures in a row."""
        if count <= 1:
            return 0
        # Bounded before it is raised: a view may fail for weeks.
        return min(self.most_ms, self.base_ms << min(count - 2, 32))

    def failed(self, before: Failure | None, reason: str, now_ms: int) -> Failure:
        """Return where a view stands after one more failure."""
        count = 1 + (before.count if before is not None else 0)
        return Failure(count, reason, now_ms, now_ms + self.delay_ms(count), count >= self.limit)
