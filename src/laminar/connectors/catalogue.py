"""All connectors as they are listed, and the options of one as they are described."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from laminar.connectors import third_parties
from laminar.connectors.declared_options import Option
from laminar.connectors.sink import sink_connectors, sink_entry
from laminar.connectors.source_registry import source_connectors, source_entry
from laminar.errors.base import LaminarError
from laminar.errors.connectors import UnknownConnector
from laminar.errors.secrets import told

SOURCE, SINK = "source", "sink"
NOT_DECLARED = "its options are those that it reads"


@dataclass(frozen=True, slots=True)
class Listed:
    """A connector, on one of its sides."""

    name: str
    kind: str
    """`source` or `sink`; empty if its package cannot be loaded."""
    about: str
    options: tuple[Option, ...] = ()


def listed() -> list[Listed]:
    """Return all connectors by name, those of other packages too; they are loaded now."""
    failed = []
    for name in third_parties.names():
        try:
            third_parties.load(name)
        except LaminarError as error:
            failed.append(Listed(name, "", told(f"{error.message}: {error.detail}")))
    found = [each for name in source_connectors() for each in _sides(name, SOURCE)]
    found += [each for name in sink_connectors() for each in _sides(name, SINK)]
    return sorted([*found, *failed], key=lambda each: (each.name, each.kind != SOURCE))


def described(name: str) -> list[Listed]:
    """Return the sides of one connector.

    Raises:
        UnknownConnector: there is none of that name.
    """
    found = [*_sides(name, SOURCE), *_sides(name, SINK)]
    if not found:
        known = {*source_connectors(), *sink_connectors(), *third_parties.names()}
        raise UnknownConnector(name, sorted(known))
    return found


def _sides(name: str, kind: str) -> Iterator[Listed]:
    entry = source_entry(name) if kind == SOURCE else sink_entry(name)
    if entry is not None:
        about = entry.about or (NOT_DECLARED if entry.options is None else "")
        yield Listed(name.casefold(), kind, about, entry.options or ())
