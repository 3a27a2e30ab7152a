from __future__ import annotations

import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import assert_type

import pytest

import laminar
from laminar.dag.builder import DagBuilder

STUB_TOOL = Path(__file__).parents[1] / "tools" / "public_stub.py"

FIVE_NAMES = "DagBuilder, StreamingDag, MvRegistry, DagWatermarkTracker, LaminarError"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_importing_names_does_not_load_spark() -> None:
    program = f"""
import sys
from laminar import {FIVE_NAMES}
heavy = {{"pyspark", "sqlglot", "pyarrow", "pandas"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_the_command_line_loads_no_web_server() -> None:
    program = """
import sys
import laminar.cli.app
heavy = {"starlette", "uvicorn", "prometheus_client", "pyspark"} & set(sys.modules)
assert not heavy, heavy
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_is_quick() -> None:
    # A whole second on top of an empty interpreter is far more than it takes; a heavy import
    # at the top of the package is far beyond that.
    def best_of_three(program: str) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            run(program)
            times.append(time.perf_counter() - start)
        return min(times)

    assert best_of_three(f"from laminar import {FIVE_NAMES}") - best_of_three("pass") < 1.0


def test_every_public_name_can_be_had() -> None:
    for name in laminar.__all__:
        assert getattr(laminar, name) is not None


def test_the_public_names_are_listed() -> None:
    assert set(laminar.__all__) <= set(dir(laminar))


def test_the_stub_says_what_the_table_says() -> None:
    tool = runpy.run_path(str(STUB_TOOL))
    rendered: str = tool["render"]()
    assert tool["STUB"].read_text(encoding="utf-8") == rendered, "run tools/public_stub.py"
    assert rendered.count("\n    DagBuilder,\n") == 1


def test_a_type_checker_sees_the_types() -> None:
    # mypy reads this file too: were the stub to lose a name, `assert_type` would be its error, and
    # were every name accepted, the ignored error below would be reported as not needed.
    assert_type(laminar.DagBuilder(), DagBuilder)
    assert_type(laminar.MAX_PORTS, int)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'DagBilder'"):
        _ = laminar.DagBilder  # type: ignore[attr-defined]
