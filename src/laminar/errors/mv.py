"""What can be wrong with a materialized view and its place among the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from laminar.errors.base import did_you_mean, nearest
from laminar.errors.dag import CycleDetected, DagError


class MvError(DagError):
    """A view could not be registered, found, changed or run.

    Catch this to handle every error of the registry of views in one place.
    """

    code: ClassVar[str] = "LMR-2000"


class DuplicateName(MvError):
    """A table or view of that name exists already.

    Choose another name, drop the old one first, or say CREATE OR REPLACE.
    """

    code: ClassVar[str] = "LMR-2001"

    def __init__(self, name: str) -> None:
        super().__init__(
            f'name already in use: "{name}"',
            hint="choose another name, or use CREATE OR REPLACE",
        )
        self.name = name


class SourceNotFound(MvError):
    """A view reads a table or view that does not exist.

    Create what it reads first, or correct the name; the hint holds the nearest one.
    """

    code: ClassVar[str] = "LMR-2002"

    def __init__(self, view: str, source: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(
            f'source not found: "{source}"',
            detail=f'view "{view}" reads it',
            hint=did_you_mean(source, names),
        )
        self.view = view
        self.source = source
        self.suggestion: str | None = nearest(source, names)


class MvCycleDetected(CycleDetected, MvError):
    """A view would come to depend on itself, directly or through other views.

    The message walks the circle once. Rewrite one of these views so that it reads something else.
    """

    code: ClassVar[str] = "LMR-2003"


class ViewNotFound(MvError):
    """No view of that name is registered.

    Correct the name; the hint holds the nearest one. SHOW MATERIALIZED VIEWS lists them all.
    """

    code: ClassVar[str] = "LMR-2004"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = tuple(known)
        super().__init__(f'view not found: "{name}"', hint=did_you_mean(name, names))
        self.name = name
        self.suggestion: str | None = nearest(name, names)


class HasDependents(MvError):
    """Something cannot be dropped, because views still read it.

    Drop those views first, or drop all of them together with CASCADE.
    """

    code: ClassVar[str] = "LMR-2005"

    def __init__(self, name: str, dependents: Iterable[str]) -> None:
        self.name = name
        self.dependents: tuple[str, ...] = tuple(dependents)
        listed = ", ".join(f'"{dependent}"' for dependent in self.dependents)
        super().__init__(
            f'cannot drop "{name}": other views depend on it',
            detail=f"dependents: {listed}",
            hint="drop them first, or use DROP ... CASCADE",
        )


class NoCommonEpoch(MvError):
    """Relations that are read together have no epoch in common.

    One of them is behind, and another began after that. Bring the first up to date, or read them
    apart.
    """

    code: ClassVar[str] = "LMR-2007"

    def __init__(
        self, younger: str, begins: int, older: str, epoch: int, *, reader: str = ""
    ) -> None:
        by = f' for "{reader}"' if reader else ""
        super().__init__(
            f'no epoch in common of "{older}" and "{younger}"{by}',
            detail=f'"{older}" is at epoch {epoch}, "{younger}" begins with epoch {begins}',
            hint=f"bring {older} up to date (REFRESH or RESUME it), or read them apart",
        )
        self.younger, self.begins = younger, begins
        self.older, self.epoch = older, epoch


class OperatorNotFound(MvError):
    """A registered view was to run, but nothing was given that computes it.

    Register an operator for the view before running the pipeline.
    """

    code: ClassVar[str] = "LMR-2006"

    def __init__(self, view: str) -> None:
        super().__init__(
            f'no operator for view "{view}"', hint="register an operator for it before running"
        )
        self.view = view
