"""Sources by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from laminar.connectors.declared_options import Option
from laminar.connectors.factories import Entry, Factories
from laminar.connectors.source import Source, close
from laminar.model.schema import Schema


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """What a user declares about a source; `seed` serves connectors that make their rows up."""

    name: str
    schema: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


SourceFactory: TypeAlias = Callable[[SourceSpec], Source]
"""Builds a source. An option it does not read is refused, so it needs no list of its options."""

_FACTORIES: Factories[SourceSpec, Source] = Factories(close)


def register_source(
    name: str,
    factory: SourceFactory,
    *,
    about: str = "",
    options: Iterable[Option] | None = None,
    alterable: Iterable[str] = (),
    paths: Iterable[str] = (),
    secrets: Iterable[str] = (),
) -> None:
    """Make a connector known; a later one of the same name takes its place.

    Args:
        name: what statements call it.
        factory: builds it.
        about: what it is, in a sentence.
        options: all of its options: they are checked before it is built, and shown by DESCRIBE
            CONNECTOR. Without them, those that it reads while it is built are its own, and the
            three below say what is special about some.
        alterable: options that ALTER SOURCE may set: neither what offsets mean nor what rows are
            between two of them depends on these.
        paths: options that are paths of this machine; relative ones are stored absolute.
        secrets: options that are never shown, besides those that sound like one.
    """
    _FACTORIES.register(
        name,
        factory,
        about=about,
        options=options,
        alterable=alterable,
        paths=paths,
        secrets=secrets,
    )


def source_entry(connector_name: str) -> Entry[SourceSpec, Source] | None:
    """Return what is known of a connector; None if there is none of that name."""
    return _FACTORIES.entry(connector_name)


def alterable_options(connector_name: str) -> frozenset[str]:
    """Return the options of a connector that may be changed while it has offsets."""
    found = _FACTORIES.entry(connector_name)
    return frozenset() if found is None else found.alterable


def with_absolute_paths(connector_name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return options that mean the same wherever the process is."""
    return _FACTORIES.with_absolute_paths(connector_name, options)


def source_connectors() -> tuple[str, ...]:
    """Return the names of all connectors that can be read from."""
    return _FACTORIES.names()


def create_source(connector_name: str, spec: SourceSpec) -> Source:
    """Build a source; each of its options was used, or it is not built."""
    return _FACTORIES.create(connector_name, spec)
