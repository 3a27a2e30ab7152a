"""Every durable step has a name at which a test can crash."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import laminar

ROOT = Path(laminar.__file__).parent
PARTS = ("store", "checkpoint", "bridge", "runtime", "connectors")

STEPS = {
    "fsync",
    "fdatasync",
    "link",
    "unlink",
    "truncate",
    "copyfile",
    "rmtree",
}
"""Calls by which a file changes for good, besides those that rename."""

WITHIN = {
    # Helpers of functions that name what comes before and after them.
    "store/durable_files.py": {"sync_file", "sync_dir", "_place", "_unlink_if_possible"},
    # Scratch of a Java that is dead.
    "runtime/spark/java_process.py": {"leave"},
    "connectors/sink_files.py": {"_make_durable", "_remove_debris", "_remove_other_formats"},
}
"""File -> functions that do a step which their callers name."""

MODULES = sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def called(function: ast.FunctionDef) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id, node


def is_step(name: str, call: ast.Call) -> bool:
    if name in ("replace", "rename"):  # temp.replace(path), and not text.replace(old, new)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        return ast.unparse(owner) in ("temp", "part", "path") and len(call.args) == 1
    return name in STEPS


def steps_without_a_name(path: Path) -> list[str]:
    allowed = WITHIN.get(path.relative_to(ROOT).as_posix(), set())
    found = []
    for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        calls = list(called(function))
        names = {name for name, _ in calls}
        if function.name in allowed or names & {"failpoint", "reached"}:
            continue
        found += [f"{function.name}: {name}" for name, call in calls if is_step(name, call)]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_durable_step_has_a_name(path: Path) -> None:
    assert steps_without_a_name(path) == []


def test_a_step_without_a_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "module.py"
    lines = ["os.fsync(1)", "temp.replace(path)", "part.replace('a', 'b')"]
    module.write_text("\n    ".join(["def f(temp, path):", *lines]))
    assert sorted(steps_without_a_name(module)) == ["f: fsync", "f: replace"]
    module.write_text("\n    ".join(["def f(temp, path):", "files.failpoint('x')", *lines]))
    assert steps_without_a_name(module) == []
