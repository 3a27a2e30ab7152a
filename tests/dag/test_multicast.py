from __future__ import annotations

import threading
import weakref
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.dag import MulticastBuffer
from laminar.errors import BackpressureFull, InvalidSetting


def test_one_consumer_reads_once() -> None:
    buffer: MulticastBuffer[int] = MulticastBuffer(16, 1)
    buffer.publish(42)
    assert buffer.consume(0) == 42
    assert buffer.consume(0) is None


def test_every_consumer_reads_once() -> None:
    buffer: MulticastBuffer[int] = MulticastBuffer(16, 3)
    buffer.publish(42)
    assert [buffer.consume(consumer) for consumer in (0, 1, 2)] == [42, 42, 42]
    assert [buffer.consume(consumer) for consumer in (0, 1, 2)] == [None, None, None]


def test_the_slowest_consumer_holds_the_producer_back() -> None:
    buffer: MulticastBuffer[int] = MulticastBuffer(2, 2)
    buffer.publish(1)
    buffer.publish(2)
    with pytest.raises(BackpressureFull):
        buffer.publish(3)
    buffer.consume(0)
    with pytest.raises(BackpressureFull):
        buffer.publish(3)
    buffer.consume(1)
    buffer.publish(3)
    assert [buffer.consume(0), buffer.consume(0)] == [2, 3]
    assert [buffer.consume(1), buffer.consume(1)] == [2, 3]


@pytest.mark.parametrize(("asked", "given_"), [(1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
def test_capacity_is_a_power_of_two(asked: int, given_: int) -> None:
    buffer: MulticastBuffer[int] = MulticastBuffer(asked, 1)
    assert buffer.capacity == given_
    for value in range(given_):
        assert not buffer.is_full
        buffer.publish(value)
    assert buffer.is_full
    assert buffer.depth == given_


def test_the_last_reader_frees_the_value() -> None:
    freed: list[str] = []
    buffer: MulticastBuffer[str] = MulticastBuffer(4, 2, on_free=freed.append)
    buffer.publish("epoch 1")
    buffer.consume(1)
    assert freed == []
    buffer.consume(0)
    assert freed == ["epoch 1"]


def test_a_freed_value_is_not_kept_alive() -> None:
    class Frame:
        pass

    buffer: MulticastBuffer[Frame] = MulticastBuffer(4, 1)
    frame = Frame()
    alive = weakref.ref(frame)
    buffer.publish(frame)
    del frame
    assert alive() is not None
    buffer.consume(0)
    assert alive() is None


def test_peeking_keeps_the_value() -> None:
    freed: list[int] = []
    buffer: MulticastBuffer[int] = MulticastBuffer(2, 1, on_free=freed.append)
    assert buffer.peek(0) is None
    buffer.publish(7)
    assert (buffer.peek(0), buffer.peek(0), freed, buffer.depth) == (7, 7, [], 1)
    assert (buffer.consume(0), buffer.peek(0), freed, buffer.depth) == (7, None, [7], 0)


def test_a_refused_value_changes_nothing() -> None:
    buffer: MulticastBuffer[int] = MulticastBuffer(1, 1)
    buffer.publish(1)
    with pytest.raises(BackpressureFull):
        buffer.publish(2)
    assert (buffer.depth, buffer.consume(0), buffer.consume(0)) == (1, 1, None)


@pytest.mark.parametrize(("capacity", "consumers"), [(0, 1), (-1, 1), (1, 0)])
def test_a_buffer_needs_room_and_readers(capacity: int, consumers: int) -> None:
    with pytest.raises(InvalidSetting):
        MulticastBuffer(capacity, consumers)


@pytest.mark.parametrize("consumer", [-1, 2])
def test_a_consumer_that_is_not_there(consumer: int) -> None:
    buffer: MulticastBuffer[int] = MulticastBuffer(4, 2)
    for read in (buffer.consume, buffer.peek):
        with pytest.raises(InvalidSetting):
            read(consumer)


@given(
    st.integers(1, 5),
    st.integers(1, 3),
    st.lists(st.integers(-1, 2), max_size=60),
)
def test_it_behaves_like_a_queue_per_consumer(
    capacity: int, consumers: int, steps: list[int]
) -> None:
    freed: list[int] = []
    buffer: MulticastBuffer[int] = MulticastBuffer(capacity, consumers, on_free=freed.append)
    queues: list[deque[int]] = [deque() for _ in range(consumers)]
    published = 0
    for step in steps:
        longest = max(map(len, queues))
        if step == -1:
            if longest == buffer.capacity:
                with pytest.raises(BackpressureFull):
                    buffer.publish(published)
            else:
                buffer.publish(published)
                for queue in queues:
                    queue.append(published)
                published += 1
        else:
            queue = queues[step % consumers]
            expected = queue.popleft() if queue else None
            assert buffer.consume(step % consumers) == expected
        assert buffer.depth == max(map(len, queues))
        assert freed == list(range(published - buffer.depth))


def test_threads_see_every_value_in_order() -> None:
    values, consumers = 2_000, 3
    freed: list[int] = []
    buffer: MulticastBuffer[int] = MulticastBuffer(8, consumers, on_free=freed.append)
    seen: list[list[int]] = [[] for _ in range(consumers)]

    def read(consumer: int) -> None:
        while len(seen[consumer]) < values:
            value = buffer.consume(consumer)
            if value is not None:
                seen[consumer].append(value)

    readers = [
        threading.Thread(target=read, args=(each,), daemon=True) for each in range(consumers)
    ]
    for reader in readers:
        reader.start()
    value = 0
    while value < values:
        try:
            buffer.publish(value)
        except BackpressureFull:
            continue
        value += 1
    for reader in readers:
        reader.join(timeout=60)
    assert seen == [list(range(values))] * consumers
    assert sorted(freed) == list(range(values))
