"""The command: what it prints, and with which exit code it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from laminar.cli import main
from laminar.sql import parse_script

LAMINAR = [sys.executable, "-c", "from laminar.cli import main; main()"]


def run(
    *arguments: str,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    given: str | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAMINAR, *arguments],
        capture_output=True,
        text=True,
        check=False,
        input=given,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **(env or {})},
    )


def require_clean(output: str) -> None:
    for noise in ("Traceback", "\tat ", "Py4J", "org.apache", "WARN", "log level"):
        assert noise not in output


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("run", "sql", "demo", "explain", "status", "checkpoints", "init"):
        assert command in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["run"],
        ["run", "no-such-file.sql"],
        ["run", "."],
        ["sql", "--json", "--csv", "-c", "SELECT 1"],
        ["run", "--json", "--csv", __file__],
        ["explain", "no-such-file.sql"],
        ["init"],
        ["status", "--csv"],
        ["demo", "--events", "many"],
        ["demo", "--events", "0"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    require_clean(done.stderr)


def test_a_typing_mistake_is_found_before_spark_starts(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text("CREATE TABLE t (n BIGINT);\n\nSELEC * FROM t;\n")
    done = run("run", str(script), env={"JAVA_HOME": "/nowhere"})
    assert done.returncode == 1
    assert done.stderr.startswith("LMR-3001")
    assert "line 3, column 1" in done.stderr
    assert "hint: did you mean SELECT?" in done.stderr
    require_clean(done.stderr)
    script.write_bytes(b"SELECT '\xff\xfe'")
    done = run("run", str(script), env={"JAVA_HOME": "/nowhere"})
    assert done.returncode == 1
    assert "not text in UTF-8" in done.stderr
    require_clean(done.stderr)


def test_a_mistake_is_json_for_a_program() -> None:
    done = run("sql", "--json", "-c", "SELECT 1;\n  SELEC 2", env={"JAVA_HOME": "/nowhere"})
    assert (done.returncode, done.stdout) == (1, "")
    told = json.loads(done.stderr)["error"]
    assert (told["code"], told["line"], told["column"]) == ("LMR-3001", 2, 3)
    assert told["hint"] == "did you mean SELECT?"


def test_nothing_to_run_starts_nothing() -> None:
    done = run("sql", env={"JAVA_HOME": "/nowhere"}, given="-- nothing\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run("sql", env={"JAVA_HOME": "/nowhere"}, given="SELECT 1;\nSELEC 2")
    assert done.returncode == 1
    assert "line 2, column 1" in done.stderr


def test_a_project_is_created_once(tmp_path: Path) -> None:
    done = run("init", "trades", cwd=tmp_path)
    assert done.returncode == 0
    made = sorted(path.name for path in (tmp_path / "trades").iterdir())
    assert made == [".gitignore", "README.md", "pipeline.sql"]
    assert len(parse_script((tmp_path / "trades" / "pipeline.sql").read_text())) == 6
    (tmp_path / "trades" / "README.md").write_text("mine")
    again = run("init", "trades", cwd=tmp_path)
    assert again.returncode == 1
    assert "not empty" in again.stderr
    assert (tmp_path / "trades" / "README.md").read_text() == "mine"


def test_a_bug_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(_: Path) -> None:
        raise ZeroDivisionError("division by zero\nand more")

    monkeypatch.setattr("laminar.cli.project.create_project", broken)
    monkeypatch.setattr(sys, "argv", ["laminar", "init", str(tmp_path / "p")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert "division by zero" in told
    assert "--verbose" in told
    require_clean(told)


@pytest.mark.parametrize("command", [["demo"], ["sql", "-c", "SELECT 1"]])
def test_a_missing_java_is_one_sentence(tmp_path: Path, command: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [*LAMINAR, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**env, "PATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "Laminar needs Java 17+ and found no java on the PATH." in done.stderr
    require_clean(done.stdout + done.stderr)
    assert list(tmp_path.iterdir()) == []


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


SCRIPT = """
CREATE SOURCE s (id BIGINT, v BIGINT) WITH (connector = 'datagen', rows_total = '30',
    rows_per_batch = '10');
CREATE TABLE t (k STRING, d BIGINT);
CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM s;
CREATE MATERIALIZED VIEW ratio AS SELECT k, SUM(10 / d) AS q FROM t GROUP BY k;
INSERT INTO t VALUES ('total of a', 4);
SELECT n AS rows_of_s FROM counted;
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # joined, because starting another takes its time
def test_a_script_runs_until_its_sources_are_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "job.sql"
    script.write_text(SCRIPT)
    state = str(tmp_path / "state")
    monkeypatch.setattr(sys, "argv", ["laminar", "run", str(script), "--state", state])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    shown = capfd.readouterr().out
    assert "rows_of_s" in shown
    assert "30" in shown
    assert "all sources are idle at epoch 3" in shown

    before = contents(tmp_path / "state")
    status = run("status", "--state", state, "--json", env={"JAVA_HOME": "/nowhere"})
    assert status.returncode == 0, status.stderr
    told = json.loads(status.stdout)
    assert told["epoch"] == 3
    rows = {each["name"]: (each["rows"], each["behind"]) for each in told["relations"]}
    assert rows == {
        "s": (30, False),
        "t": (1, False),
        "counted": (None, None),
        "ratio": (None, None),
    }
    assert contents(tmp_path / "state") == before


@pytest.mark.long
def test_a_process_shows_nothing_of_what_java_prints(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text(SCRIPT)
    state = str(tmp_path / "state")
    assert run("run", str(script), "--state", state).returncode == 0
    again = run(
        *("sql", "--state", state),
        given="SELECT * FROM ratio; INSERT INTO t VALUES ('total of b', 5);\n\\d ratio\n"
        "SELECT * FROM ratio; INSERT INTO t VALUES ('total of c', 0); SELECT 'never shown'",
        cwd=tmp_path,
    )
    assert again.returncode == 1
    assert "reads: t" in again.stdout
    assert "never shown" not in again.stdout
    assert again.stderr.startswith("LMR-")
    assert again.stdout.count("total of a") == 2
    assert again.stdout.count("total of b") == 1
    assert "LMR-1011" in again.stderr
    assert "ratio" in again.stderr
    require_clean(again.stdout + again.stderr)


@pytest.mark.long
@pytest.mark.spark
def test_the_demo_ends_by_itself_and_shows_its_views(tmp_path: Path) -> None:
    done = run("demo", "--events", "20000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for shown in ("position_tracker", "vwap", "anomalies", "ACME", "HALO"):
        assert shown in done.stdout
    assert "Shared stages: normalized_trades (3 consumers)" in done.stdout
    require_clean(done.stdout + done.stderr)


def test_the_command_is_installed() -> None:
    found = shutil.which("laminar", path=str(Path(sys.executable).parent))
    assert found is not None
