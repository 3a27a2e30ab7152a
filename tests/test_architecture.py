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

SPARK_INTERNALS = {"_jvm", "_jdf", "_jsc", "_jsparkSession", "_jconf", "_gateway"}
"""Attributes of PySpark's objects that lead into the JVM."""

INTERNAL_LIBRARIES = ("py4j", "pyspark.sql.classic", "pyspark.java_gateway")

KNOWS_INTERNALS = {
    f"laminar.runtime.spark.{each}"
    for each in ("fast", "hadoop", "plan_cache", "error_translation")
}
"""The fast way, its parts, and who catches what Java throws."""


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


def internals(source: str, module: str) -> set[str]:
    """Return the internals of Spark that a module uses and should not know."""
    if module in KNOWS_INTERNALS:
        return set()
    found = {
        target
        for target in imported(source, module, is_package=False)
        if f"{target}.".startswith(tuple(f"{each}." for each in INTERNAL_LIBRARIES))
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found |= {node.attr} & SPARK_INTERNALS
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} & SPARK_INTERNALS
    return found


@pytest.mark.parametrize(("module", "path"), INSIDE, ids=[module for module, _ in INSIDE])
def test_only_the_fast_way_knows_the_internals_of_spark(module: str, path: Path) -> None:
    assert internals(path.read_text(encoding="utf-8"), module) == set()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("laminar.store.segments", "def f(df):\n    return df._jdf.queryExecution()"),
        ("laminar.session", "spark._jsparkSession.sharedState()"),
        ("laminar.connectors.files", "getattr(spark.sparkContext, '_jvm')"),
        ("laminar.runtime.spark.portable", "SparkContext._gateway"),
        ("laminar.result", "from py4j.protocol import Py4JJavaError"),
        ("laminar.result", "import py4j"),
        ("laminar.testing.oracle", "from pyspark.sql.classic.dataframe import DataFrame"),
        ("laminar.cli.app", "def f():\n    from pyspark.java_gateway import launch_gateway"),
    ],
)
def test_who_reaches_into_spark_is_caught(module: str, source: str) -> None:
    assert len(internals(source, module)) == 1
    assert internals(source, "laminar.runtime.spark.fast") == set()
