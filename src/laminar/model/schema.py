"""The columns of a relation: names, types and whether they may be NULL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from laminar.errors.dag import InvalidSchema
from laminar.model.types import (
    limits_text,
    normalise_type,
    quoted_name,
    split_column,
    split_top_level,
)


@dataclass(frozen=True, slots=True)
class Field:
    """A column. Its type is kept in one spelling, so `integer` equals `INT`."""

    name: str
    type: str
    nullable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", normalise_type(self.type))

    def ddl(self) -> str:
        """Return the column as CREATE TABLE takes it."""
        return f"{quoted_name(self.name)} {self.type}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order. Names are unique and found without regard to case, as Spark does."""

    fields: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        seen: set[str] = set()
        for field in self.fields:
            if field.name.casefold() in seen:
                raise InvalidSchema(f'column "{field.name}" appears twice')
            seen.add(field.name.casefold())

    @classmethod
    def parse(cls, ddl: str) -> Schema:
        """Read `name TYPE [NOT NULL], ...`; empty text is the schema without columns."""
        if not ddl.strip():
            return cls()
        return cls(tuple(Field(*split_column(column)) for column in split_top_level(ddl)))

    @classmethod
    def of(cls, schema: Schema | str | None) -> Schema | None:
        """Take a schema in any of the ways a user may write it.

        Nobody would look after the length of a text here, so none is taken.
        """
        if isinstance(schema, str) and limits_text(schema):
            reason = "CHAR(n) and VARCHAR(n) need CREATE TABLE or CREATE SOURCE; write STRING here"
            raise InvalidSchema(reason, schema)
        return cls.parse(schema) if isinstance(schema, str) else schema

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> Field | None:
        """Return the column of that name, whatever its case; None if there is none."""
        folded = name.casefold()
        return next((field for field in self.fields if field.name.casefold() == folded), None)

    def ddl(self) -> str:
        """Return text that `parse` reads back as this schema."""
        return ", ".join(field.ddl() for field in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.field(name) is not None
