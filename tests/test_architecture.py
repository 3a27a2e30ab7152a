"""Imports point one way: from the outside in, and Spark stays at the edge."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import laminar

ROOT = Path(laminar.__file__).parent

RANK = {
    "preflight": 0,
    "errors": 0,
    "text_table": 0,
    "model": 1,
    "dag": 2,
    "mv": 2,
    "sql": 3,
    "plan": 4,
    "delta": 5,
    "connectors": 6,
    "store": 6,
    "bridge": 7,
    "checkpoint": 7,
    "runtime": 8,
    "result": 9,
    "session": 10,
    "testing": 11,
    "console": 11,
    "cli": 12,
}
"""A part may import itself and parts of lower rank; parts of equal rank do not know each other."""

SIBLINGS_ALLOWED = {("laminar.dag.watermark", "laminar.mv.watermark")}
"""The tracker of a DAG is the tracker of views, spoken to by node."""

ONLY_IN = {
    "pyspark": {"runtime", "connectors", "store", "result", "session", "testing"},
    "sqlglot": {"sql", "plan", "delta"},
    "starlette": {"console"},
    "uvicorn": {"console"},
    "prometheus_client": {"console"},
}
"""Library -> the parts that may import it."""


def imported(source: str, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the full name of everything a module imports, wherever in it the import stands."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # `from laminar import dag` names a part, `from laminar.dag import X` a thing in one.
            names = (f"{stem}.{alias.name}" for alias in node.names)
            yield from names if stem == "laminar" else [stem]


def faults(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Return the imports of a module that break a rule."""
    part = part_of(module)
    found = []
    for target in imported(source, module, is_package=is_package):
        library = target.split(".")[0]
        if library in ONLY_IN and part not in ONLY_IN[library]:
            found.append(f"{module} imports {library}")
        if library == "laminar" and not allowed(module, target):
            found.append(f"{module} imports {target}")
    return found


def allowed(module: str, target: str) -> bool:
    if (module, target) in SIBLINGS_ALLOWED or part_of(module) == part_of(target):
        return True
    # A name of the package itself has no rank: inside, things are imported from where they live.
    return RANK.get(part_of(target), 99) < RANK[part_of(module)]


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


INSIDE = [(module, path) for module, path in modules() if module != "laminar"]


def test_every_part_has_a_rank() -> None:
    assert {part_of(module) for module, _ in INSIDE} <= set(RANK)
    assert len(INSIDE) > 10


@pytest.mark.parametrize(("module", "path"), INSIDE, ids=[module for module, _ in INSIDE])
def test_imports_point_inwards(module: str, path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert faults(source, module, is_package=path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("laminar.dag.node", "import pyspark"),
        ("laminar.delta.join", "from pyspark.sql import DataFrame"),
        ("laminar.runtime.epoch.executor", "import sqlglot.expressions as exp"),
        ("laminar.model.schema", "from laminar.dag.node import DagNode"),
        ("laminar.model.schema", "from laminar import dag"),
        ("laminar.model.schema", "from ..dag import node"),
        ("laminar.sql.parse", "def f():\n    from laminar.plan import nodes"),
        ("laminar.dag.topology", "import laminar.mv.registry"),
        ("laminar.mv.watermark", "from laminar.dag.watermark import DagWatermarkTracker"),
        ("laminar.bridge.pipeline", "from laminar.runtime.ingest.range_reader import Range"),
        ("laminar.bridge.pipeline", "import pyspark"),
        ("laminar.store.pending", "from laminar.bridge import PipelineBridge"),
        ("laminar.errors.dag", "from laminar.model import Schema"),
        ("laminar.runtime.epoch.executor", "from laminar import DagBuilder"),
        ("laminar.console.app", "from laminar.cli.status import find_state"),
        ("laminar.console.app", "import pyspark"),
        ("laminar.session", "from laminar.console import server"),
        ("laminar.cli.app", "import uvicorn"),
    ],
)
def test_an_offender_is_caught(module: str, source: str) -> None:
    assert len(faults(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("laminar.runtime.epoch.executor", "from pyspark.sql import DataFrame"),
        ("laminar.sql.parse", "import sqlglot"),
        ("laminar.dag.topology", "from laminar.model.ids import NodeId"),
        ("laminar.dag.topology", "from .node import DagNode"),
        ("laminar.dag.watermark", "from laminar.mv.watermark import CascadingWatermarkTracker"),
        ("laminar.cli.main", "from laminar import session"),
        ("laminar.session", "from laminar.runtime import executor"),
        ("laminar.cli.app", "from laminar.console.server import serve"),
        ("laminar.console.app", "import starlette.routing"),
    ],
)
def test_an_honest_import_passes(module: str, source: str) -> None:
    assert faults(source, module) == []


@pytest.mark.parametrize(
    "page", sorted((ROOT.parents[1] / "docs").glob("*.md")), ids=lambda page: page.stem
)
def test_pages_name_files_that_are_there(page: Path) -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text(encoding="utf-8")))
    roots = (ROOT, ROOT.parents[1])
    assert not [name for name in named if not any((root / name).exists() for root in roots)]


# What threads wait for: docs/locks.md has all of it

LOCKS_PAGE = ROOT.parents[1] / "docs" / "locks.md"
WAITED_FOR = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Barrier"}
EVENTS = {"Event"}
TURNS = {"WriterTurn"}


class Makers(ast.NodeVisitor):
    """Finds where something is made that threads wait for, and what it is called."""

    def __init__(self, place: str, kinds: set[str]) -> None:
        self.found: dict[str, set[int]] = {}
        """Name -> the lines it is made in."""
        self._place = place
        self._kinds = kinds
        self._names = set(TURNS)
        self._owners: list[str] = []
        self._targets: list[str] = []

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "threading":
            self._names |= {alias.name for alias in node.names}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._owners.append(node.name)
        self.generic_visit(node)
        self._owners.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for each in (*node.args.defaults, *node.body):  # not what the annotations name
            self.visit(each)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._made_for(node.targets[0], node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._made_for(node.target, node.value)

    def _made_for(self, target: ast.expr, value: ast.expr) -> None:
        known = {ast.Attribute: "attr", ast.Name: "id"}.get(type(target))
        self._targets.append(getattr(target, known) if known else "?")
        self.visit(value)
        self._targets.pop()

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id == "threading":
            self._note(node.attr, node.lineno)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._names:
            self._note(node.id, node.lineno)

    def _note(self, kind: str, line: int) -> None:
        if kind in self._kinds:
            name = ".".join([*self._owners[-1:], *(self._targets or [f"line {line}"])])
            self.found.setdefault(f"{self._place}::{name}", set()).add(line)


def made_in(source: str, place: str, kinds: set[str]) -> dict[str, set[int]]:
    found = Makers(place, kinds)
    found.visit(ast.parse(source))
    return found.found


def made_anywhere(kinds: set[str]) -> set[str]:
    found: set[str] = set()
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        found |= made_in(path.read_text(encoding="utf-8"), place, kinds).keys()
    return found


def told_locks(page: str) -> list[str]:
    """Return the locks of the table, in its order."""
    return re.findall(r"^\| `([\w/]+\.py::[\w.]+)` \|", page, re.MULTILINE)


def test_every_lock_is_on_the_page_of_locks_and_nothing_else() -> None:
    page = LOCKS_PAGE.read_text(encoding="utf-8")
    told = told_locks(page)
    assert len(told) == len(set(told)) > 10
    assert set(told) == made_anywhere(WAITED_FOR | TURNS)
    events = set(re.findall(r"`([\w/]+\.py::[\w.]+)`", page)) - set(told)
    assert events == made_anywhere(EVENTS)


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def __init__(self):\n        self.guard = threading.RLock()",
        "class A:\n    guard: threading.Lock = field(default_factory=threading.Lock)",
        "class A:\n    def __init__(self):\n        self.guard = threading.Condition(Lock())",
        "class A:\n    def __init__(self):\n        self.guard = defaultdict(threading.Lock)",
        "class A:\n    def __init__(self):\n        self.guard: object = WriterTurn(root)",
        "from threading import Lock\nclass A:\n    def f(self):\n        self.guard = Lock()",
    ],
)
def test_a_lock_that_is_on_no_page_is_caught(source: str) -> None:
    found = made_in(source, "runtime/new.py", WAITED_FOR | TURNS)
    assert set(found) == {"runtime/new.py::A.guard"}
    assert not set(found) & set(told_locks(LOCKS_PAGE.read_text(encoding="utf-8")))


def test_a_lock_without_an_owner_is_caught_and_an_annotation_is_none() -> None:
    loose = "def f():\n    with threading.Lock():\n        pass"
    assert set(made_in(loose, "x.py", WAITED_FOR)) == {"x.py::line 2"}
    honest = "class A:\n    def f(self, lock: threading.Lock) -> threading.Lock:\n        x: Lock"
    assert made_in(honest, "x.py", WAITED_FOR) == {}
