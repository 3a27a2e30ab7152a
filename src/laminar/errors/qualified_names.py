"""What can be wrong with the schema or the catalog of a name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from laminar.errors.base import did_you_mean
from laminar.errors.sql import SqlError


class UnknownSchema(SqlError):
    """A statement names a schema that does not exist.

    A database has the schema `default` for what users define, and `laminar_system`.
    """

    code: ClassVar[str] = "LMR-3035"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(
            f'unknown schema: "{name}"',
            detail=f"there are: {', '.join(names)}" if names else "",
            hint=did_you_mean(name, names),
        )
        self.name = name


class UnknownCatalog(SqlError):
    """A name of three parts begins with another catalog than this one.

    A database is one catalog, `laminar`. Leave the first part out.
    """

    code: ClassVar[str] = "LMR-3036"

    def __init__(self, name: str, own: str) -> None:
        hint = f"the catalog of a database is {own}; leave it out"
        super().__init__(f'unknown catalog: "{name}"', hint=hint)
        self.name = name
