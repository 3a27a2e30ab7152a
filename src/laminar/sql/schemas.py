"""Names of several parts: `catalog.schema.name`, and the one string that each stands for.

The catalog is called `laminar`. Inside, a relation is known by its *identity*: its own name if it
is in the schema `default`, else `schema.name`. Neither half of an identity holds a dot, so no two
relations share one. What a user writes becomes an identity here, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from laminar.errors.qualified_names import UnknownCatalog, UnknownSchema
from laminar.errors.sql import UnknownRelation
from laminar.model.quoting import backquoted, unquoted
from laminar.sql.system import SYSTEM

CATALOG = "laminar"
DEFAULT = "default"
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_PART = re.compile(r"`(?:[^`]|``)+`|[^.`]+")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name, without backquotes: those keep a dot from dividing it.

    A text that is no such name is one of one part: Python code may hand in any.
    """
    if "." not in name and "`" not in name:
        return (name,)
    if _NAME.fullmatch(name) is None:
        return (name,)
    return tuple(unquoted(each) for each in _PART.findall(name))


def schema_of(identity: str) -> str:
    """Return the schema that a relation is in."""
    return identity.partition(".")[0] if "." in identity else DEFAULT


def last_of(identity: str) -> str:
    """Return a relation's name within its schema."""
    return identity.partition(".")[2] or identity


def written_in_full(identity: str) -> str:
    """Return what names a relation whatever the current schema is."""
    return f"{_quoted(schema_of(identity))}.{_quoted(last_of(identity))}"


def _quoted(part: str) -> str:
    return part if _PLAIN.fullmatch(part) else backquoted(part)


@dataclass(frozen=True, slots=True)
class Names:
    """What a written name stands for, where a schema is current and others are known.

    Args:
        current: the schema that names of one part are in.
        schemas: those of the user's, as they were created.
        dotted: relations of a Python DAG whose own name has a dot, in lower case.
    """

    current: str = DEFAULT
    schemas: tuple[str, ...] = ()
    dotted: frozenset[str] = frozenset()

    def schema(self, name: str) -> str:
        """Return a schema as it is known; a name may begin with the catalog.

        Raises:
            UnknownSchema: there is none of that name.
            UnknownCatalog: it is in another catalog.
        """
        return self._schema(parts_of(name))

    def identity(self, name: str) -> str:
        """Return the identity of a relation, there or not, from its name as it is written."""
        return self.of(parts_of(name))

    def of(self, parts: Sequence[str]) -> str:
        """Return the identity that some parts stand for."""
        if ".".join(parts).lower() in self.dotted:
            return ".".join(parts)
        *owner, last = parts
        schema = self._schema(owner or (self.current,))
        if "." in last or "`" in last:
            last = backquoted(last)  # nothing is called so, and nothing may be
        return last if schema == DEFAULT else f"{schema}.{last}"

    def known(self, parts: Sequence[str]) -> str:
        """Return the identity that parts stand for in a query, where nothing new is named."""
        found = self.of(parts)
        if found.endswith("`"):
            raise UnknownRelation(found)
        return found

    def _schema(self, parts: Sequence[str]) -> str:
        if len(parts) == 2 and parts[0].lower() != CATALOG:
            raise UnknownCatalog(parts[0], CATALOG)
        every = (DEFAULT, *self.schemas, SYSTEM)
        if len(parts) <= 2:
            for known in every:
                if known.lower() == parts[-1].lower():
                    return known
        raise UnknownSchema(".".join(parts), every)

    def refers(self, parts: Sequence[str], identity: str) -> bool:
        """Whether two or three parts name a relation, schema included."""
        owner = parts[-2].lower() if len(parts) > 1 else ""
        in_catalog = len(parts) == 2 or (len(parts) == 3 and parts[0].lower() == CATALOG)
        same = (schema_of(identity).lower(), last_of(identity).lower())
        return in_catalog and (owner, parts[-1].lower()) == same
