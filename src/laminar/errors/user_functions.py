"""What can be wrong with functions that users bring."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from laminar.errors.sql import SqlError


class FunctionExists(SqlError):
    """A function of that name exists already, in this database or in Spark.

    A function of Spark's is never hidden by one of a database: which of them a view means would
    depend on Spark's version. Choose another name, say OR REPLACE for one of your own, or say
    IF NOT EXISTS.
    """

    code: ClassVar[str] = "LMR-3030"

    def __init__(self, name: str, *, is_built_in: bool = False) -> None:
        hint = "choose another name" if is_built_in else "say OR REPLACE, or DROP FUNCTION first"
        owner = " of Spark's" if is_built_in else ""
        super().__init__(f'function{owner} exists already: "{name}"', hint=hint)
        self.name = name


class InvalidFunction(SqlError):
    """A function cannot be what its definition says.

    The detail says why: a body that is no expression over the parameters, one that reads tables,
    or a Python function that takes whole groups.
    """

    code: ClassVar[str] = "LMR-3031"

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(f'function "{name}" cannot be defined', detail=why, hint=hint)
        self.name = name


class FunctionInUse(SqlError):
    """A function cannot be dropped, because views or other functions call it.

    Drop those first, or all of them together with CASCADE.
    """

    code: ClassVar[str] = "LMR-3032"

    def __init__(self, name: str, users: Iterable[str]) -> None:
        self.name = name
        self.users = tuple(users)
        super().__init__(
            f'cannot drop function "{name}": it is called',
            detail=f"by: {', '.join(self.users)}",
            hint="drop them first, or use DROP FUNCTION ... CASCADE",
        )


class FunctionNotRegistered(SqlError):
    """A Python function is needed that was not registered since the database was opened.

    Its name and type are stored with the database, its code is not. Call `db.register_function`
    with the same function: views that waited for it go on with the next step. Where views have to
    be filled before a database can be used, give it to `connect(functions=...)`.
    """

    code: ClassVar[str] = "LMR-3033"

    def __init__(self, name: str) -> None:
        super().__init__(
            f'function "{name}" is not registered',
            hint=f'call db.register_function("{name}", ...), or name it in connect(functions=...)',
        )
        self.name = name


class InvalidCall(SqlError):
    """A function of the database is called in a way in which it cannot be.

    The detail says what is wrong with the call: arguments that are missing, too many, or unknown.
    """

    code: ClassVar[str] = "LMR-3034"

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(f'function "{name}" cannot be called like this', detail=why, hint=hint)
        self.name = name
