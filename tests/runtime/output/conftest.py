from __future__ import annotations

from collections.abc import Iterator

import pytest

from laminar.testing.waiting import until

from .written import OPEN, threads


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Let no thread outlive a test."""
    yield
    while OPEN:
        OPEN.pop().close()
    until(lambda: not threads())
