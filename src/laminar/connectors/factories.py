"""Connectors by name: what builds a source or a sink from what a user declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from laminar.connectors import third_parties
from laminar.connectors.declared_options import Option, OptionType, names, require_fit
from laminar.connectors.options import Options
from laminar.errors.base import LaminarError
from laminar.errors.connectors import UnknownConnector, UnknownOption
from laminar.errors.dag import ConnectorError
from laminar.errors.secrets import declare


class Declared(Protocol):
    """What a user declares about a connector: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str:
        """The name of the source or sink."""

    @property
    def options(self) -> Mapping[str, str]:
        """As the user wrote them."""


_Spec = TypeVar("_Spec", bound=Declared)
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Entry(Generic[_Spec, _Made]):
    """A connector that is known."""

    factory: Callable[[_Spec], _Made]
    about: str = ""
    options: tuple[Option, ...] | None = None
    """None if it does not declare them: then those that it reads while it is built are its own."""
    paths: frozenset[str] = frozenset()
    alterable: frozenset[str] = frozenset()


class Factories(Generic[_Spec, _Made]):
    """Name, in any case -> what builds connectors of that name.

    Args:
        close: ends a connector that was built for nothing.
    """

    def __init__(self, close: Callable[[_Made], object]) -> None:
        self._close = close
        self.known: dict[str, Entry[_Spec, _Made]] = {}

    def register(
        self,
        name: str,
        factory: Callable[[_Spec], _Made],
        *,
        about: str = "",
        options: Iterable[Option] | None = None,
        secrets: Iterable[str] = (),
        paths: Iterable[str] = (),
        alterable: Iterable[str] = (),
    ) -> None:
        """Make a connector known; a later one of the same name takes its place.

        Args:
            name: what it is called after `connector =`.
            factory: builds it.
            about: what it is, in a sentence.
            options: all of its options; without them, those that it reads are its own.
            secrets: names of its options that are never shown, besides those that sound like one.
            paths: options that are paths of this machine; relative ones are stored absolute.
            alterable: options that may be changed while it has offsets.
        """
        declared = None if options is None else tuple(options)
        told = declared or ()
        declare({*secrets, *names(told, lambda each: each.is_secret)})
        self.known[name.casefold()] = Entry(
            factory,
            about,
            declared,
            frozenset(paths) | names(told, lambda each: each.type is OptionType.PATH),
            frozenset(alterable) | names(told, lambda each: each.is_alterable),
        )

    def entry(self, name: str) -> Entry[_Spec, _Made] | None:
        """Return a connector, if there is one of that name; its package is loaded now."""
        if name.casefold() not in self.known:
            third_parties.load(name)
        return self.known.get(name.casefold())

    def with_absolute_paths(self, name: str, options: Mapping[str, str]) -> dict[str, str]:
        """Return options that mean the same wherever the process is."""
        found = self.entry(name)
        paths = frozenset[str]() if found is None else found.paths
        return {
            option: _absolute(value) if option.lower() in paths else value
            for option, value in options.items()
        }

    def names(self) -> tuple[str, ...]:
        """Return all names."""
        return tuple(sorted(self.known))

    def create(self, name: str, spec: _Spec) -> _Made:
        """Build a connector; each of its options was used, or it is not built.

        Raises:
            ConnectorError: what its own code raised.
        """
        entry = self.entry(name)
        if entry is None:
            raise UnknownConnector(name, (*self.names(), *third_parties.names()))
        options = Options(name.casefold(), spec.options)
        if entry.options is not None:
            require_fit(name.casefold(), spec.options, entry.options)
        try:
            made = entry.factory(replace(spec, options=options))
        except LaminarError:
            raise
        except Exception as error:
            raise ConnectorError(spec.name, error) from error
        try:
            options.refuse_leftovers()
        except UnknownOption:
            self._close(made)
            raise
        return made


def _absolute(path: str) -> str:
    """Return a path as it is from everywhere; what is looked up when it is used stays as it is."""
    is_elsewhere = "://" in path or "${" in path or not path
    return path if is_elsewhere else str(Path(path).expanduser().absolute())
