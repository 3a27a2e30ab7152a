"""A connector for tests that hangs, fails, and says odd things, as a test asks."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

import laminar


class Mood:
    """What the connectors of one source are like; it outlives them."""

    def __init__(self) -> None:
        self.total = 0
        self.hang = ""
        """The call that does not return: `constructor`, `latest_offset`, `read_arrow`, `close`."""
        self.released = threading.Event()
        self.hanging = threading.Event()
        """Set once a call hangs."""
        self.fail = ""
        self.offsets: list[Any] = []
        """What `latest_offset` says next, before it counts."""
        self.built = self.calls = self.most_at_once = 0
        self.closed = threading.Semaphore(0)
        """Released by each connector that is closed."""

    def reach(self, call: str) -> None:
        if self.fail == call:
            raise OSError(f"{call}: the server is gone")
        if self.hang == call:
            self.hanging.set()
            assert self.released.wait(60)


MOODS: dict[str, Mood] = {}


class MoodySource:
    """Rows 0, 1, 2, ..., at most ten at a time; its mood decides the rest."""

    append_only = True

    def __init__(self, mood: Mood, step: int) -> None:
        self.mood, self.step, self.busy = mood, step, 0

    def _reach(self, call: str) -> None:
        self.mood.calls += 1
        self.busy += 1
        self.mood.most_at_once = max(self.mood.most_at_once, self.busy)
        try:
            self.mood.reach(call)
        finally:
            self.busy -= 1

    def latest_offset(self, start: Any) -> Any:
        self._reach("latest_offset")
        if self.mood.offsets:
            return self.mood.offsets.pop(0)
        end = min((start or 0) + self.step, self.mood.total)
        return end if end > (start or 0) else None

    def read_arrow(self, start: Any, end: Any) -> pa.Table:
        self._reach("read_arrow")
        return pa.table({"n": pa.array(range(start or 0, end), pa.int64())})

    def read(self, *_: Any) -> Any:
        raise AssertionError("Arrow is enough")

    def close(self) -> None:
        self._reach("close")
        self.mood.closed.release()


def make(spec: laminar.SourceSpec) -> MoodySource:
    mood = MOODS.setdefault(spec.options.get("of", spec.name), Mood())
    step = int(spec.options.get("step", "10"))
    if spec.options.get("host", "here") != "here":
        raise OSError("no such host")
    spec.options.get("seed")
    mood.reach("constructor")
    mood.built += 1
    return MoodySource(mood, step)


laminar.register_source("moody", make, alterable=("host", "step"))


def moody(name: str, **options: object) -> str:
    """Return the statement that creates one; its calls may take 50 ms."""
    given = {"call_timeout": "300 ms", **options}
    listed = ", ".join(f"{key} = '{value}'" for key, value in given.items())
    return f"CREATE SOURCE {name} (n BIGINT) WITH (connector = 'moody', {listed})"
