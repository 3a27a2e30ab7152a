"""What a sink is to the engine, and sinks by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from laminar.connectors.declared_options import Option
from laminar.connectors.factories import Entry, Factories
from laminar.model.quoting import backquoted
from laminar.model.schema import Schema
from laminar.model.trace import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGE, EPOCH = "__change", "__epoch"
"""Columns that a published row has besides those of the view."""


def _nothing(point: str) -> None:
    """Go on."""


reached: Callable[[str], None] = _nothing
"""Called at every point of writing where a crash would matter."""

AT_LEAST_ONCE = "at least once: after a crash an epoch may come again, with the same number"
"""What a sink promises that says nothing itself."""


@runtime_checkable
class SinkConnector(Protocol):
    """Takes what each epoch changed.

    Law: epochs come in order, each after it was committed. After a crash the last one may come
    again with the same rows; a sink that replaces what it wrote under that number is exact.

    It may have more: an attribute `promise`, a sentence that says which of the two it is; an
    attribute `target`, which no two sinks may share; an attribute `layout`, which stays as long as
    the target does, whatever options are altered; `begin()`, called once before a target is new to
    the sink, which may refuse it; `close()`. All are called on threads of the sink's own, one call
    at a time.
    """

    def write(self, epoch: int, delta: DataFrame) -> object:
        """Publish an epoch; `delta` has the view's columns and `__weight`, and no row twice."""
        ...


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """What a user declares about a sink."""

    name: str
    relation: str
    schema: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    """Columns that tell the rows apart, where that is known; () if there is at most one row."""


SinkFactory: TypeAlias = Callable[[SinkSpec], SinkConnector]
"""Builds a sink. An option it does not read is refused, so it needs no list of its options."""


def close_sink(sink: SinkConnector) -> None:
    """Close the sink if it holds anything."""
    end = getattr(sink, "close", None)
    if callable(end):
        end()


_FACTORIES: Factories[SinkSpec, SinkConnector] = Factories(close_sink)


def register_sink(
    name: str,
    factory: SinkFactory,
    *,
    about: str = "",
    options: Iterable[Option] | None = None,
    secrets: Iterable[str] = (),
    paths: Iterable[str] = (),
) -> None:
    """Make a connector known; a later one of the same name takes its place.

    Args:
        name: what it is called after `connector =`.
        factory: builds it.
        about: what it is, in a sentence.
        options: all of its options: they are checked before it is built, and shown by DESCRIBE
            CONNECTOR. Without them, those that it reads while it is built are its own.
        secrets: names of its options that are never shown, besides those that sound like one.
        paths: options that are paths of this machine; relative ones are stored absolute.
    """
    _FACTORIES.register(name, factory, about=about, options=options, secrets=secrets, paths=paths)


def sink_entry(connector_name: str) -> Entry[SinkSpec, SinkConnector] | None:
    """Return what is known of a connector; None if there is none of that name."""
    return _FACTORIES.entry(connector_name)


def with_absolute_sink_paths(connector_name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return options that mean the same wherever the process is."""
    return _FACTORIES.with_absolute_paths(connector_name, options)


def sink_connectors() -> tuple[str, ...]:
    """Return the names of all connectors that can be written to."""
    return _FACTORIES.names()


def create_sink(connector_name: str, spec: SinkSpec) -> SinkConnector:
    """Build a sink; each of its options was used, or it is not built."""
    return _FACTORIES.create(connector_name, spec)


def begin_sink(sink: SinkConnector) -> None:
    """Let a new sink look at its target before anything is written; it may refuse it."""
    begin = getattr(sink, "begin", None)
    if callable(begin):
        begin()


def change_rows(epoch: int, delta: DataFrame) -> DataFrame:
    """Return a delta as plain rows: a weight of -2 becomes two rows of change `delete`."""
    names = [backquoted(name) for name in delta.columns if name != WEIGHT]
    return delta.selectExpr(
        *names,
        f"IF({WEIGHT} > 0, 'insert', 'delete') AS {CHANGE}",
        f"{epoch}L AS {EPOCH}",
        f"EXPLODE(ARRAY_REPEAT(0, CAST(ABS({WEIGHT}) AS INT))) AS __copy",
    ).drop("__copy")
