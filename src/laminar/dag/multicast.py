"""One writer, several readers, nothing copied: the output of a shared stage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from laminar.errors.dag import BackpressureFull, InvalidSetting

T = TypeVar("T")


class MulticastBuffer(Generic[T]):
    """A ring of slots, each counting the consumers that still have to read it.

    Every consumer sees every value once, in order. The last one to read a slot frees it; a slot
    that is not free is never overwritten. So a value lives exactly as long as someone needs it,
    and the slowest consumer holds the producer back by at most `capacity` values.
    """

    def __init__(
        self, capacity: int, consumer_count: int, *, on_free: Callable[[T], object] | None = None
    ) -> None:
        if capacity < 1:
            raise InvalidSetting("capacity", capacity, "1 or more")
        if consumer_count < 1:
            raise InvalidSetting("consumer_count", consumer_count, "1 or more")
        # A power of two turns the wrap-around of positions into a bit mask.
        self.capacity = 1 << (capacity - 1).bit_length()
        self.consumer_count = consumer_count
        self._mask = self.capacity - 1
        self._slots: list[T | None] = [None] * self.capacity
        self._readers_left = [0] * self.capacity
        self._written = 0
        self._read = [0] * consumer_count
        self._on_free = on_free
        self._lock = threading.Lock()

    @property
    def depth(self) -> int:
        """How many values some consumer has not read yet."""
        with self._lock:
            return self._written - min(self._read)

    @property
    def positions(self) -> tuple[int, ...]:
        """How many values each consumer has let go of."""
        with self._lock:
            return tuple(self._read)

    @property
    def is_full(self) -> bool:
        """Whether `publish` would be refused now."""
        with self._lock:
            return self._readers_left[self._written & self._mask] > 0

    def publish(self, value: T) -> None:
        """Hand a value to all consumers, or raise BackpressureFull and change nothing."""
        with self._lock:
            at = self._written & self._mask
            if self._readers_left[at]:
                raise BackpressureFull(self.capacity)
            self._slots[at] = value
            self._readers_left[at] = self.consumer_count
            self._written += 1

    def peek(self, consumer: int) -> T | None:
        """Return a consumer's next value and keep it alive; None if there is none.

        Work on a value between `peek` and `consume` if freeing it would take it away.
        """
        self._check(consumer)
        with self._lock:
            at = self._read[consumer]
            return self._slots[at & self._mask] if at < self._written else None

    def consume(self, consumer: int) -> T | None:
        """Return a consumer's next value and let go of it; None if there is none."""
        self._check(consumer)
        with self._lock:
            at = self._read[consumer] & self._mask
            if self._read[consumer] == self._written:
                return None
            value = self._slots[at]
            self._read[consumer] += 1
            self._readers_left[at] -= 1
            freed = self._readers_left[at] == 0
            if freed:
                self._slots[at] = None
        # Outside the lock: freeing may delete files, and others need not wait for that.
        if freed and self._on_free is not None and value is not None:
            self._on_free(value)
        return value

    def _check(self, consumer: int) -> None:
        if not 0 <= consumer < self.consumer_count:
            raise InvalidSetting("consumer", consumer, f"0 to {self.consumer_count - 1}")
