"""How often a failing view is tried again."""

from __future__ import annotations

from laminar.mv.retry import Failure, RetryPolicy


def test_the_first_retry_is_immediate_and_then_the_wait_doubles_up_to_a_limit() -> None:
    policy = RetryPolicy(base_ms=1000, most_ms=5000)
    assert [policy.delay_ms(count) for count in (1, 2, 3, 4, 5, 500)] == [
        0, 1000, 2000, 4000, 5000, 5000,
    ]  # fmt: skip


def test_failures_in_a_row_end_in_suspension() -> None:
    policy = RetryPolicy(base_ms=10, limit=3)
    failure: Failure | None = None
    seen = []
    for now in (100, 200, 300):
        failure = policy.failed(failure, f"at {now}", now)
        seen.append((failure.count, failure.retry_at_ms, failure.is_suspended))
    assert seen == [(1, 100, False), (2, 210, False), (3, 320, True)]
    assert failure is not None
    assert failure.reason == "at 300"
