"""What can be wrong with the schema or the catalog of a name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from laminar.errors.base import did_you_mean
from laminar.errors.sql import SqlError


class UnknownSchema(SqlError):
    """A statement names a schema that does not exist.

    Create it with CREATE SCHEMA, or correct the name; the hint holds the nearest one. Every
    database has `default`, and `laminar_system`.
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


class SchemaExists(SqlError):
    """A schema of that name exists already.

    Choose another name, or say IF NOT EXISTS if either will do. `default`, `laminar_system` and the
    name of the catalog, `laminar`, are taken in every database.
    """

    code: ClassVar[str] = "LMR-3037"

    def __init__(self, name: str) -> None:
        hint = "choose another name, or say IF NOT EXISTS"
        super().__init__(f'schema exists already: "{name}"', hint=hint)
        self.name = name


class SchemaNotEmpty(SqlError):
    """A schema that is to be dropped has tables, views or sinks.

    Drop those first, or say CASCADE to drop them with it, and all that reads them in other schemas.
    """

    code: ClassVar[str] = "LMR-3038"

    def __init__(self, name: str, relations: Iterable[str]) -> None:
        super().__init__(
            f'schema "{name}" is not empty',
            detail=f"in it are: {', '.join(relations)}",
            hint=f"DROP SCHEMA {name} CASCADE drops them as well",
        )
        self.name = name
