"""Imports point one way: from the outside in, and Spark stays at the edge."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import laminar
from laminar.model.trace_name import TraceKind

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

ROOMS = {
    "spark": 1,
    "catalog": 2,
    "event_time": 3,
    "scheduling": 3,
    "relations": 4,
    "ingest": 4,
    "history": 5,
    "epoch": 6,
    "output": 7,
    "engine": 8,
    "introspection": 9,
    "statements": 10,
}
"""The rooms of the runtime: each may import itself and rooms of lower rank."""

KNOWS_ENGINE = {"engine", "introspection", "statements"}
"""Rooms whose modules may take an engine; below, each takes the parts that it uses."""

ONLY_IN = {
    "pyspark": {"runtime", "connectors", "store", "result", "session", "testing"},
    "sqlglot": {"sql", "plan", "delta"},
    "starlette": {"console"},
    "uvicorn": {"console"},
    "prometheus_client": {"console"},
}
"""Library -> the parts that may import it."""

SPARK_INTERNALS = {
    *("_jvm", "_jdf", "_jsc", "_sc", "_jsparkSession", "_jconf", "_gateway"),
    *("_jrdd", "_jreader", "_jwrite", "_jschema", "sparkContext", "rdd"),
}
"""Attributes of PySpark's objects that lead into the JVM, and public ones that sessions of Spark
Connect do not have."""

INTERNAL_LIBRARIES = ("py4j", "pyspark.sql.classic", "pyspark.java_gateway")

KNOWS_INTERNALS = {
    f"laminar.runtime.spark.{each}"
    for each in (
        *("fast", "hadoop", "java_names", "plan_cache"),
        *("error_translation", "java_process", "lifeline"),
    )
}
"""The fast way, its parts, who catches what Java throws, and who sees to it that Java is there."""


def imported(source: str, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the full name of everything a module imports, wherever in it the import stands."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # `from laminar.dag import order` names a module, `from laminar.dag import X` a thing.
            names = [f"{stem}.{alias.name}" for alias in node.names]
            yield from names if stem == "laminar" else [n if n in NAMES else stem for n in names]


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
    if (module, target) in SIBLINGS_ALLOWED:
        return True
    if part_of(module) == part_of(target):
        return room_allowed(module, target)
    # A name of the package itself has no rank: inside, things are imported from where they live.
    return RANK.get(part_of(target), 99) < RANK[part_of(module)]


def room_allowed(module: str, target: str) -> bool:
    here, there = room_of(module), room_of(target)
    if here is None or there is None:
        return True
    if target == "laminar.runtime.engine.engine" and here not in KNOWS_ENGINE:
        return False
    return here == there or ROOMS[there] < ROOMS[here]


def room_of(module: str) -> str | None:
    """Return the room of a module of the runtime."""
    names = module.split(".")
    return names[2] if names[1:2] == ["runtime"] and len(names) > 2 else None


def cycle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return modules that import each other in a circle; none if there are none."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        for target in imports.get(module, ()):
            if found := walk(target, [*path, module]):
                return found
        done.add(module)
        return []

    return next((found for module in imports if (found := walk(module, []))), [])


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


INSIDE = [(module, path) for module, path in modules() if module != "laminar"]
NAMES = {module for module, _ in INSIDE}
MODULES = [module for module, path in INSIDE if path.name != "__init__.py"]
PAGES = sorted((ROOT.parents[1] / "docs").glob("*.md"))


def test_every_part_has_a_rank() -> None:
    assert {part_of(module) for module, _ in INSIDE} <= set(RANK)
    assert len(INSIDE) > 10


def test_every_room_has_a_rank() -> None:
    assert {room for module, _ in INSIDE if (room := room_of(module))} == set(ROOMS)


def test_modules_form_no_circle() -> None:
    """Not even for types: a circle is one module that was cut in two."""
    imports = {
        module: sorted(
            {
                target
                for target in imported(
                    path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py"
                )
                if target in NAMES and target != module
            }
        )
        for module, path in INSIDE
    }
    assert cycle(imports) == []


def test_a_circle_is_found() -> None:
    assert cycle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c"]
    assert cycle({"a": ["b", "c"], "b": ["c"], "c": []}) == []


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
        ("laminar.bridge.pipeline", "from laminar.runtime.ingest.range_reader import RangeReader"),
        ("laminar.bridge.pipeline", "import pyspark"),
        ("laminar.store.pending", "from laminar.bridge import PipelineBridge"),
        ("laminar.errors.dag", "from laminar.model import Schema"),
        ("laminar.runtime.epoch.executor", "from laminar import DagBuilder"),
        ("laminar.console.app", "from laminar.cli.status import find_state"),
        ("laminar.console.app", "import pyspark"),
        ("laminar.session", "from laminar.console import server"),
        ("laminar.cli.app", "import uvicorn"),
        ("laminar.runtime.spark.typer", "from laminar.runtime.catalog.catalog import Catalog"),
        ("laminar.runtime.event_time.due", "import laminar.runtime.scheduling.scheduler"),
        ("laminar.runtime.epoch.runner", "from laminar.runtime.output.sinks import Publisher"),
        ("laminar.runtime.history.ledger", "from laminar.runtime.engine import engine"),
        (
            "laminar.runtime.ingest.pruning",
            "if TYPE_CHECKING:\n    from laminar.runtime.engine.engine import Engine",
        ),
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
        ("laminar.runtime.epoch.runner", "from laminar.runtime.history.ledger import Ledger"),
        ("laminar.runtime.statements.dml", "from laminar.runtime.engine.engine import Engine"),
    ],
)
def test_an_honest_import_passes(module: str, source: str) -> None:
    assert faults(source, module) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_name_files_that_are_there(page: Path) -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text(encoding="utf-8")))
    roots = (ROOT, ROOT.parents[1])
    assert not [name for name in named if not any((root / name).exists() for root in roots)]


SYMBOL = re.compile(r"`((?:\w+/)*\w+\.py)::([\w.]+)`")


def unresolved(text: str) -> list[str]:
    """Return the symbols that a page names and no module has."""
    return [
        f"{file}::{symbol}"
        for file, symbol in SYMBOL.findall(text)
        if not resolves(ROOT / file, symbol.split("."))
    ]


def resolves(path: Path, names: list[str]) -> bool:
    """Whether a file defines a function, a class, or a method or an attribute of a class."""
    if not path.exists():
        return False
    scope: ast.Module | ast.ClassDef = ast.parse(path.read_text(encoding="utf-8"))
    for place, name in enumerate(names):
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        found = [each for each in scope.body if isinstance(each, kinds) and each.name == name]
        if not found:
            return place > 0 and place == len(names) - 1 and name in attributes(scope)
        if not isinstance(found[0], ast.ClassDef):
            return place == len(names) - 1
        scope = found[0]
    return True


def attributes(owner: ast.AST) -> set[str]:
    """Return what is assigned to the objects of a class."""
    return {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for each in ast.walk(owner)
        if isinstance(each, ast.Assign | ast.AnnAssign)
        for node in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if isinstance(node, ast.Attribute | ast.Name)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_symbols_named_in_pages_resolve(page: Path) -> None:
    assert unresolved(page.read_text(encoding="utf-8")) == []


def test_a_symbol_that_is_gone_is_found() -> None:
    text = "`session.py::Database.execute` `session.py::Database.gone` `gone.py::f` `session.py`"
    assert unresolved(text) == ["session.py::Database.gone", "gone.py::f"]


def test_the_life_of_a_change_has_eight_steps_of_a_screen_each() -> None:
    page = (ROOT.parents[1] / "docs" / "life-of-a-change.md").read_text(encoding="utf-8")
    steps = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert [step[:2] for step in steps] == [f"{number}." for number in range(1, 9)]
    assert all(step.count("\n") <= 40 for step in steps)
    assert all(SYMBOL.search(step) for step in steps)


# Names of traces are put together and taken apart in one place.

TRACE_NAMES = "laminar.model.trace_name"

CUTS = {
    "split", "rsplit", "partition", "rpartition", "startswith", "endswith", "removeprefix",
    "removesuffix", "find", "rfind", "index", "rindex", "replace",
}  # fmt: skip
"""Functions, of strings and of `re`, that look for a sign in a text."""


def handmade_names(source: str, module: str) -> list[str]:
    """Return where a module builds or splits the name of a trace by hand.

    The signs of such names never stand behind a value that is formatted or added, nor in what a
    text is searched or cut by, nor alone.
    """
    if module == TRACE_NAMES:
        return []
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if any(_is_sign(text) for text in _joins(node)):
            found.append(f"{module}:{getattr(node, 'lineno', 0)} makes or splits names of traces")
    return found


def _joins(node: ast.AST) -> Iterator[str]:
    """Yield the texts that an expression puts behind a value, or cuts or searches one by."""
    match node:
        case ast.JoinedStr(values=values):
            yield from _texts(*values[1:])
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
            yield from _texts(left, right)
        case ast.Compare(left=left, comparators=others):
            yield from _texts(left, *others)
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in CUTS:
            yield from _texts(*args)


def _texts(*nodes: ast.expr) -> Iterator[str]:
    for node in nodes:
        for each in node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]:
            if isinstance(each, ast.JoinedStr):
                yield from _texts(*each.values)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def _is_sign(text: str) -> bool:
    kinds = "|".join(TraceKind)
    return re.fullmatch(rf"[\[(]?[#!]+[\])]?|#\d+.*|.*!({kinds}).*", text, re.DOTALL) is not None


@pytest.mark.parametrize(("module", "path"), INSIDE, ids=[module for module, _ in INSIDE])
def test_names_of_traces_are_made_in_one_place(module: str, path: Path) -> None:
    assert handmade_names(path.read_text(encoding="utf-8"), module) == []


@pytest.mark.parametrize(
    "source",
    [
        'view = trace.split("#")[0]',
        'view, _, kind = trace.partition("!")',
        'view = re.split("[#!]", trace)[0]',
        'own = trace.startswith(f"{view}#")',
        'own = trace.startswith((f"{view}#", f"{view}!"))',
        'own = "#" in trace',
        'own = trace.endswith("!partial")',
        'owner = trace.removesuffix("!pending")',
        'name = f"{view}#{number}"',
        'name = f"{view}#1"',
        'name = f"{view}!partial"',
        'name = view + "!partial"',
        'name = view + "#" + str(1)',
        'name = "%s!late" % view',
    ],
)
def test_a_name_that_is_handmade_is_caught(source: str) -> None:
    assert handmade_names(source, "laminar.runtime.history.compactor") != []
    assert handmade_names(source, TRACE_NAMES) == []


@pytest.mark.parametrize(
    "source",
    [
        'title = f"# {name}"',
        'hint = f"{name}: choose one without # and !"',
        'told = found != "!="',
        'parts = text.split("->")',
    ],
)
def test_other_uses_of_the_signs_pass(source: str) -> None:
    assert handmade_names(source, "laminar.runtime.history.compactor") == []


# What a manifest remembers is reached by the fields of EngineState, never by keys.

STATE = "laminar.model.state"

OF_MAPPINGS = {"get", "items", "keys", "values", "pop", "setdefault", "update", "copy"}


def poked_states(source: str, module: str) -> list[str]:
    """Return where a module treats the state of a manifest as a mapping.

    That is: whatever is called `state`, or given such a name, is asked for a key, unpacked or
    gone through; or the JSON of a manifest is asked for its state. And only a manifest turns
    one into JSON and back.
    """
    if module == STATE:
        return []
    tree = ast.parse(source)
    found: set[ast.AST] = set()
    for nodes in _scopes(tree):
        known = _other_names(nodes)
        found |= {node for node in nodes if _pokes(node, known)}
    if module != "laminar.model.trace":
        found |= {node for node in ast.walk(tree) if _translates(node)}
    return [f"{module}:{getattr(node, 'lineno', '')} pokes at a state" for node in found]


def _scopes(tree: ast.AST) -> Iterator[list[ast.AST]]:
    """Yield what is in each function, and what is in none."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {each for function in functions for each in ast.walk(function)}
    yield [node for node in ast.walk(tree) if node not in inside]
    yield from (list(ast.walk(function)) for function in functions)


def _other_names(nodes: list[ast.AST]) -> set[str]:
    """Return the variables that a state is assigned to."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="state")):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Attribute(attr="state")):
                found.add(name)
            case ast.NamedExpr(target=ast.Name(id=name), value=ast.Attribute(attr="state")):
                found.add(name)
            case ast.arg(arg=name, annotation=ast.Name(id="EngineState")):
                found.add(name)
    return found


def _is_state(node: ast.AST | None, known: set[str]) -> bool:
    match node:
        case ast.Attribute(attr="state"):
            return True
        case ast.Name(id=name):
            return name in known
        case ast.BoolOp(values=[first, *_]):
            return _is_state(first, known)
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="state"), *_]):
            return True
    return False


def _pokes(node: ast.AST, known: set[str]) -> bool:
    match node:
        case ast.Subscript(value=value):
            return _is_state(value, known)
        case ast.Attribute(value=value, attr=name):
            return name in OF_MAPPINGS and _is_state(value, known)
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="state"), *_]):
            return True
        case ast.Call(func=ast.Name(id="dict" | "list" | "iter" | "len"), args=[value, *_]):
            return _is_state(value, known)
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return any(key is None and _is_state(value, known) for key, value in pairs)
        case ast.Compare(ops=[*_, ast.In() | ast.NotIn()], comparators=[*_, value]):
            return _is_state(value, known)
        case ast.For(iter=value) | ast.comprehension(iter=value) | ast.keyword(None, value):
            return _is_state(value, known)
    return False


def _translates(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(slice=ast.Constant(value="state")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="state"), *_]):
            return True
        case ast.Attribute(value=ast.Name(id="EngineState"), attr="from_json"):
            return True
        case ast.Attribute(value=value, attr="to_json"):
            return _is_state(value, set())
    return False


@pytest.mark.parametrize(("module", "path"), INSIDE, ids=[module for module, _ in INSIDE])
def test_what_a_manifest_remembers_has_names(module: str, path: Path) -> None:
    assert poked_states(path.read_text(encoding="utf-8"), module) == []


@pytest.mark.parametrize(
    "source",
    [
        'paused = manifest.state["paused"]',
        'paused = engine.manifest.state.get("paused", ())',
        'report = (manifest.state or {}).get("report")',
        'state = manifest.state\npaused = state.get("paused")',
        'said = manifest.state\npaused = said["paused"]',
        'if (state := manifest.state) and "held" in state: pass',
        "def f(given: EngineState) -> object:\n    return given['held']",
        'held = "held" in manifest.state',
        "everything = {**manifest.state, 'report': None}",
        "everything = dict(manifest.state)",
        "everything = dict(**manifest.state)",
        "for key in manifest.state: pass",
        "keys = [key for key in manifest.state]",
        'held = getattr(manifest, "state")["held"]',
        'held = manifest.to_json()["state"]["held"]',
        'held = json.loads(text).get("state")',
        "held = manifest.state.to_json()",
        'state = EngineState.from_json({"held": {}})',
    ],
)
def test_a_state_that_is_poked_at_is_caught(source: str) -> None:
    assert poked_states(source, "laminar.runtime.history.timeline") != []
    assert poked_states(source, STATE) == []


@pytest.mark.parametrize(
    "source",
    [
        "paused = manifest.state.paused",
        'report = manifest.state.report.get("views", ())',
        'name in manifest.state.behind and manifest.state.outlines["v"]',
        "state = replace(manifest.state, sinks=())",
        'bindings.state("v").changed',
        "view.state is MvState.PAUSED",
        'answer = {"state": each.state}',
        'state = shapes["v"]\nstate["columns"]',
    ],
)
def test_a_state_that_is_asked_by_name_passes(source: str) -> None:
    assert poked_states(source, "laminar.runtime.history.timeline") == []


MOST_MODULES = 16
"""More than that are not one room."""


def crowded(names: Iterable[str]) -> list[str]:
    """Return the rooms of the runtime that have more modules than one can keep in mind."""
    rooms = Counter(room for name in names if name.count(".") > 2 and (room := room_of(name)))
    return sorted(room for room, count in rooms.items() if count > MOST_MODULES)


def test_no_room_is_crowded() -> None:
    assert crowded(MODULES) == []


def test_a_crowded_room_is_found() -> None:
    names = [f"laminar.runtime.epoch.m{number}" for number in range(MOST_MODULES)]
    assert crowded(["laminar.runtime.epoch", *names]) == []
    assert crowded([*names, "laminar.runtime.epoch.sub.one_more"]) == ["epoch"]


MIRRORS = {
    # Read, planned, rendered and run: one idea in several stages.
    "aging": {"plan", "delta"},
    "asof": {"sql", "delta"},
    "dml": {"sql", "runtime.statements"},
    "query": {"sql", "runtime.statements"},
    "sessions": {"plan", "delta"},
    "table_changes": {"sql", "runtime.history"},
    "watermarks": {"sql", "runtime.event_time"},
    # What one shows is what the other knows.
    "checkpoints": {"cli", "runtime.engine"},
    "explain": {"cli", "runtime.introspection"},
    "metrics": {"console", "runtime.introspection"},
    "sinks": {"runtime.output", "runtime.introspection.system"},
    "status": {"cli", "runtime.introspection"},
    "topology": {"dag", "runtime.introspection.system"},
    # The errors of a part are called like the part, or like the module.
    "event_time": {"errors", "model"},
    # The tracker of a DAG is the tracker of views; a typer for tests stands in for Spark's.
    "watermark": {"dag", "mv"},
    "typer": {"runtime.spark", "testing"},
    # Each command and each page has an entry of its own.
    "app": {"cli", "console"},
    # A session with a database, and with Spark.
    "session": {"", "runtime.spark"},
}
"""Name of several modules -> where they are."""


def namesakes(names: Iterable[str]) -> dict[str, set[str]]:
    """Return the names that several modules have, and where these are."""
    found: dict[str, set[str]] = {}
    for name in names:
        place, _, stem = name.removeprefix("laminar.").rpartition(".")
        found.setdefault(stem, set()).add(place)
    return {stem: places for stem, places in found.items() if len(places) > 1}


def test_a_name_is_one_module() -> None:
    assert namesakes(MODULES) == MIRRORS


def test_a_second_module_of_a_name_is_found() -> None:
    names = ["laminar.session", "laminar.dag.order", "laminar.runtime.epoch.order"]
    assert namesakes(names) == {"order": {"dag", "runtime.epoch"}}


WITHOUT_SPARK = {"catalog", "scheduling", "event_time", "introspection"}
"""Rooms that decide, and can be built and tested without a session; not even for types."""


def spark_imports(source: str, module: str) -> list[str]:
    """Return what a module of these rooms imports of Spark."""
    if room_of(module) not in WITHOUT_SPARK:
        return []
    targets = imported(source, module, is_package=False)
    return [each for each in targets if each.split(".")[0] in ("pyspark", "py4j")]


@pytest.mark.parametrize(("module", "path"), INSIDE, ids=[module for module, _ in INSIDE])
def test_rooms_that_decide_do_not_know_spark(module: str, path: Path) -> None:
    assert spark_imports(path.read_text(encoding="utf-8"), module) == []


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("catalog.catalog", "from pyspark.errors import PySparkException", ["pyspark.errors"]),
        ("scheduling.scheduler", "if TYPE_CHECKING:\n    import pyspark", ["pyspark"]),
        ("event_time.due", "def f():\n    import py4j.protocol", ["py4j.protocol"]),
        ("introspection.system.table", "from pyspark import sql", ["pyspark"]),
        ("epoch.runner", "import pyspark", []),
        ("catalog.catalog", "from laminar.runtime.spark.typer import SparkTyper", []),
    ],
)
def test_a_room_that_knows_spark_is_found(module: str, source: str, found: list[str]) -> None:
    assert spark_imports(source, f"laminar.runtime.{module}") == found


MAP = ROOT.parents[1] / "docs" / "architecture.md"


PARTS_ON_THE_MAP = ("plan", "delta", "store", "connectors", "bridge")


def on_the_map(page: str) -> set[str]:
    """Return the modules that a page names, in tables below headings of rooms and parts."""
    found: set[str] = set()
    room: str | None = None
    for line in page.splitlines():
        if line.startswith("#"):
            heading = re.match(r"### `(\w+)`", line)
            room = heading[1] if heading else None
            if room is not None and room not in PARTS_ON_THE_MAP:
                room = f"runtime.{room}"
        elif room and (row := re.match(r"\| `([\w.]+)` \| [^\s|]", line)):
            found.add(f"laminar.{room}.{row[1]}")
    return found


def test_every_module_is_on_the_map() -> None:
    named = on_the_map(MAP.read_text(encoding="utf-8"))
    parts = tuple(f"laminar.{part}." for part in PARTS_ON_THE_MAP)
    there = {module for module in MODULES if room_of(module) or module.startswith(parts)}
    assert (there - named, named - there) == (set(), set())


def test_a_map_is_read_room_by_room() -> None:
    page = "# A\n| `no` | room |\n### `epoch`\n| `runner` | one |\n| `bare` | |\n## B\n| `x` | y |"
    assert on_the_map(page) == {"laminar.runtime.epoch.runner"}


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
        ("laminar.store.segments", "def f(df):\n    return df.rdd.getNumPartitions()"),
        ("laminar.connectors.files", "spark.sparkContext.setLogLevel('ERROR')"),
        ("laminar.result", "from py4j.protocol import Py4JJavaError"),
        ("laminar.result", "import py4j"),
        ("laminar.testing.oracle", "from pyspark.sql.classic.dataframe import DataFrame"),
        ("laminar.cli.app", "def f():\n    from pyspark.java_gateway import launch_gateway"),
    ],
)
def test_who_reaches_into_spark_is_caught(module: str, source: str) -> None:
    assert internals(source, module)
    assert internals(source, "laminar.runtime.spark.fast") == set()


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
