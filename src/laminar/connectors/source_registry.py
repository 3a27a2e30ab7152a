"""Connectors by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from laminar.connectors.options import Options
from laminar.connectors.source import Source, close
from laminar.errors.base import LaminarError
from laminar.errors.connectors import UnknownConnector, UnknownOption
from laminar.errors.dag import ConnectorError
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

_FACTORIES: dict[str, SourceFactory] = {}


def register_source(name: str, factory: SourceFactory) -> None:
    """Make a connector known; a later one of the same name takes its place."""
    _FACTORIES[name.casefold()] = factory


def source_connectors() -> tuple[str, ...]:
    """Return the names of all connectors that can be read from."""
    return tuple(sorted(_FACTORIES))


def create_source(connector_name: str, spec: SourceSpec) -> Source:
    """Build a source; each of its options was used, or it is not built."""
    factory = _FACTORIES.get(connector_name.casefold())
    if factory is None:
        raise UnknownConnector(connector_name, source_connectors())
    options = Options(connector_name.casefold(), spec.options)
    try:
        source = factory(replace(spec, options=options))
    except LaminarError:
        raise
    except Exception as error:
        raise ConnectorError(spec.name, error) from error
    try:
        options.refuse_leftovers()
    except UnknownOption:
        close(source)
        raise
    return source
