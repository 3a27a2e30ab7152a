from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from laminar import preflight

SCRIPT = Path(preflight.__file__)


@pytest.fixture(autouse=True)
def no_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)


def install_java(bin_dir: Path, version: str | None) -> None:
    """Put a `java` there that answers -version, on stderr as the real one does."""
    bin_dir.mkdir(parents=True, exist_ok=True)
    java = bin_dir / "java"
    answer = "echo nonsense >&2" if version is None else f"echo '{version}' >&2"
    java.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.11" 2024-04-16', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.2"', 17),
        ("no such thing", None),
        ("", None),
    ],
)
def test_versions_are_read_in_all_their_spellings(text: str, version: int | None) -> None:
    assert preflight.parse_java_version(text) == version


def test_missing_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    problem = preflight.java_problem()
    assert problem is not None
    assert "found no java on the PATH" in problem
    assert "openjdk" in problem


def test_java_home_is_looked_at_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_java(tmp_path / "path", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing-here"))
    problem = preflight.java_problem()
    assert problem is not None
    assert "under JAVA_HOME" in problem


def test_old_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_java(tmp_path, 'openjdk version "11.0.22" 2024-01-16')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    problem = preflight.java_problem()
    assert problem is not None
    assert "is Java 11" in problem
    assert "needs Java 17+" in problem


def test_java_that_says_nothing_useful_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_java(tmp_path, None)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "an unknown version" in (preflight.java_problem() or "")


def test_java_that_does_not_start_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "does not start" in (preflight.java_problem() or "")


@pytest.mark.parametrize("version", ["17.0.11", "21", "25-ea"])
def test_new_enough_java_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    install_java(tmp_path, f'openjdk version "{version}"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert preflight.java_problem() is None


def run_script(path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_says_it_in_one_line(tmp_path: Path) -> None:
    done = run_script(str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_the_script_is_silent_if_all_is_well(tmp_path: Path) -> None:
    install_java(tmp_path, 'openjdk version "17.0.11"')
    done = run_script(f"{tmp_path}:/usr/bin:/bin")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
