"""What can be wrong with the use of a database as a whole."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.base import LaminarError


class DatabaseClosed(LaminarError):
    """Something was asked of a database that is closed.

    Open it again with `laminar.connect`; everything committed or inserted before is still there,
    unless the database was a temporary one.
    """

    code: ClassVar[str] = "LMR-5001"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the database is closed: {path}", hint="open it again with laminar.connect"
        )
        self.path = path
