"""Sinks that note what they are given, and fail or hang when they are told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.output.sink_state import Backoff
from laminar.runtime.output.sink_waits import SinkLimits
from laminar.runtime.output.sinks import Publisher

from .told import Told


@dataclass
class Written:
    """A sink that notes what it is given, and fails when it is told to."""

    fails: BaseException | None = None
    target: str | None = None
    during: Callable[[], object] = lambda: None
    epochs: list[tuple[int, Any]] = field(default_factory=list)
    closed: int = 0

    def write(self, epoch: int, delta: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.during()
        self.epochs.append((epoch, delta))

    def close(self) -> None:
        self.closed += 1


OPEN: list[Publisher] = []


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("laminar sink")]


class Clock:
    """Seconds that go on when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def publisher(told: Told, clock: Clock | None = None) -> Publisher:
    made = Publisher(
        told.parts.defined,
        told.log,
        told.snapshot,
        told.cursors,
        clock=clock or Clock(),
        wall=lambda: 1_000_000,
    )
    made.waits.limits = SinkLimits(60.0, 60.0, Backoff(1.0, 60.0))
    told.log.needs.append(made.progress.needs)
    told.sinks.append(made)
    OPEN.append(made)
    made.books.start()
    return made


def sink(
    sinks: Publisher,
    name: str,
    relation: str = "v",
    at: int = 0,
    rule: Mapping[str, str] | None = None,
    **given: Any,
) -> Written:
    """Define a sink that begins with an epoch, and connect it."""
    made = Written(**given)
    definition = SinkDefinition(name, relation, OBJECT, rule or {}, from_epoch=at)
    with sinks.adding(definition):
        pass
    sinks.connect(definition, made)
    return made
