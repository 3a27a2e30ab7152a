"""The schemas that users create: names and comments, as a manifest carries them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from laminar.errors import UnknownSchema
from laminar.sql.schemas import DEFAULT, last_of, schema_of


@dataclass(frozen=True, slots=True)
class UserSchemas:
    """All but `default` and `laminar_system`, which every database has; a change makes another."""

    comments: Mapping[str, str] = field(default_factory=dict)
    """Schema -> what the user says of it, in the order of creation."""

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, str]]) -> UserSchemas:
        """Read them back from a manifest."""
        return cls({each["name"]: each.get("comment", "") for each in data})

    def to_json(self) -> tuple[Mapping[str, str], ...]:
        """Return them as plain values."""
        return tuple({"name": name, "comment": each} for name, each in self.comments.items())

    @property
    def names(self) -> tuple[str, ...]:
        """The names as they were created."""
        return tuple(self.comments)

    def with_one(self, name: str, comment: str) -> UserSchemas:
        """Return these and another one."""
        return UserSchemas({**self.comments, name: comment})

    def without(self, name: str) -> UserSchemas:
        """Return these without one."""
        return UserSchemas({key: each for key, each in self.comments.items() if key != name})

    def of(self, identity: str) -> str:
        """Return the schema that a relation or sink is in, as it was created."""
        schema = schema_of(identity).lower()
        return next((each for each in self.comments if each.lower() == schema), DEFAULT)

    def shown(self, identity: str) -> str:
        """Return what something is called within its schema."""
        return identity if self.of(identity) == DEFAULT else last_of(identity)

    def require(self, identity: str) -> None:
        """Raise if something new would be in no schema: it may have been dropped meanwhile."""
        if "." in identity and self.of(identity) == DEFAULT:
            raise UnknownSchema(schema_of(identity), (DEFAULT, *self.comments))

    def strange(self, relations: Iterable[str]) -> frozenset[str]:
        """Return relations of a DAG whose own name has a dot, in lower case: in no schema."""
        known = {each.lower() for each in self.comments}
        dotted = (each for each in relations if "." in each)
        return frozenset(each.lower() for each in dotted if schema_of(each).lower() not in known)
