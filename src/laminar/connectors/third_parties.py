"""Connectors of other packages, found by their entry points and loaded when they are named.

A package says in its `pyproject.toml`

    [project.entry-points."laminar.connectors"]
    weather = "my_package.weather:register"

and `register()` calls `register_source`, `register_sink` or both with that name.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from laminar.errors.base import LaminarError
from laminar.errors.dag import ConnectorError

GROUP = "laminar.connectors"

_loaded: set[str] = set()


def names() -> tuple[str, ...]:
    """Return the names under which packages offer connectors; none of their code runs."""
    return tuple(sorted({each.name.casefold() for each in entry_points(group=GROUP)}))


def load(name: str) -> None:
    """Let the package register that offers a connector of a name; nothing happens without one.

    Raises:
        ConnectorError: its code fails; it is tried again the next time.
    """
    for each in entry_points(group=GROUP):
        if each.name.casefold() == name.casefold() and name.casefold() not in _loaded:
            _register(each)  # no lock is held: to register twice changes nothing
            _loaded.add(name.casefold())


def _register(found: EntryPoint) -> None:
    try:
        found.load()()
    except LaminarError:
        raise
    except Exception as error:
        raise ConnectorError(found.name, error) from error
