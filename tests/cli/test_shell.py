"""A conversation: what is typed, and what is shown."""

from __future__ import annotations

import _thread
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import laminar
from laminar.cli import main
from laminar.cli.shell import open_history, run_shell
from laminar.cli.step_runner import interruptible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETUP = """
CREATE TABLE orders (id BIGINT, region STRING, amount BIGINT);
CREATE SOURCE feed (n BIGINT) WITH (connector = 'datagen', rows_per_batch = '5');
CREATE MATERIALIZED VIEW totals AS SELECT region, SUM(amount) AS total FROM orders GROUP BY region;
CREATE MATERIALIZED VIEW fed AS SELECT COUNT(*) AS rows_fed FROM feed;
"""

Talk = Callable[[str], tuple[str, str]]


@pytest.fixture
def talk(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Talk:
    monkeypatch.setenv("LAMINAR_HISTORY", str(tmp_path / "history"))

    def typed(keys: str) -> tuple[str, str]:
        with (
            laminar.connect(tmp_path / "state", spark=spark) as db,
            create_pipe_input() as keyboard,
        ):
            if not db.engine.defined.catalog.exists("orders"):
                db.execute(SETUP)
            keyboard.send_text(keys)
            run_shell(db, keyboard=keyboard, screen=DummyOutput())
        shown = capsys.readouterr()
        return shown.out, shown.err

    return typed


@pytest.mark.spark
def test_a_conversation(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "more.sql").write_text("SELECT 'from a file' AS f;\n\\i nowhere.sql\n")
    out, err = talk(
        "INSERT INTO orders VALUES (1, 'north', 10),\r (2, 'south; or so', 5);\r"
        "SELECT total AS t FROM totals\rWHERE region = 'south; or so';\r"
        "SELECT half a line that is can\x03"
        "SELECT totl FROM\r  totals;\r"
        "\\d\r"
        "\\d totals\r"
        "\\d totls\r"
        "\\timing\r"
        "SELECT rows_fed FROM fed;\r"
        "\\watch 0 c=2\r"
        "\\wach\r"
        f"\\i {tmp_path / 'more.sql'}\r"
        "\\?\r"
        "SELECT 1 / 0 AS broken;\r"
        "SELECT 'still here' AS s;\r"
        "\x04"
    )
    assert "2 rows changed, epoch 1" in out
    assert "│ 5 │" in out
    assert "half a line" not in out + err
    assert "unknown column" in err
    assert "line 1, column 8" in err
    assert 'did you mean "total"?' in err
    assert "materialized view" in out
    assert "datagen" in out
    assert "reads: orders" in out
    assert "CREATE MATERIALIZED VIEW totals AS SELECT" in out
    assert 'did you mean "totals"?' in err
    assert "time: " in out
    # The insertion was an epoch, and each look is another: five rows, then ten, then fifteen.
    assert [each in out for each in ("│        5 │", "│       10 │", "│       15 │")] == [True] * 3
    assert "did you mean \\watch?" in err
    assert "from a file" in out
    assert "cannot read nowhere.sql" in err
    assert "repeat the last query" in out
    assert "DIVIDE_BY_ZERO" in err
    assert "still here" in out
    assert "Traceback" not in out + err
    history = (tmp_path / "history").read_text()
    assert "+WHERE region = 'south; or so';" in history
    assert (tmp_path / "history").stat().st_mode & 0o077 == 0

    out, _ = talk("\\q\rSELECT 'never shown' AS n;\r")
    assert "never shown" not in out


def cli(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["laminar", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_programs_read_json_and_csv_and_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT 1 AS a, NULL AS b, 'x,y' AS c, CAST(2 AS DECIMAL(4, 2)) AS d"
    assert cli(monkeypatch, "sql", "--json", "-c", f"{query}; SHOW TABLES") == 0
    rows, _, tables = capsys.readouterr().out.partition("]\n")
    assert json.loads(f"{rows}]") == [{"a": 1, "b": None, "c": "x,y", "d": "2.00"}]
    assert json.loads(tables) == []
    assert cli(monkeypatch, "sql", "--csv", "-c", query) == 0
    assert capsys.readouterr().out == 'a,b,c,d\n1,,"x,y",2.00\n'
    assert cli(monkeypatch, "sql", "--json", "-c", "SELECT a\nFROM nowhere") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert json.loads(shown.err)["error"]["line"] == 2

    script = tmp_path / "job.sql"
    rows_folder = tmp_path / "rows"
    rows_folder.mkdir()
    (rows_folder / "broken.json").write_text("reading this would fail")
    script.write_text(
        "CREATE SOURCE s (k STRING, n BIGINT)"
        f" WITH (connector = 'files', path = '{tmp_path / 'rows'}', format = 'json');"
        "CREATE MATERIALIZED VIEW a AS SELECT k, SUM(n) AS n FROM s GROUP BY k;"
        "CREATE MATERIALIZED VIEW b AS SELECT k, PERCENTILE(n, 0.5) AS p FROM s GROUP BY k;"
        "INSERT INTO s VALUES ('x', 1); SELECT * FROM a;"
    )
    assert cli(monkeypatch, "explain", str(script), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["waves"] == [["s"], ["a", "b"]]
    assert {each["name"]: each["strategy"] for each in told["views"]} == {
        "a": "incremental",
        "b": "affected groups",
    }
    assert "touched groups only" in told["views"][1]["parts"][0]["why"]
    assert cli(monkeypatch, "explain", str(script)) == 0
    shown_text = capsys.readouterr().out
    assert "Execution order: s -> [a, b]" in shown_text
    assert "not run: 1 statement" in shown_text
    script.write_text("CREATE TABLE t (n BIGINT);\nCREATE MATERIALIZED VIEW v AS\n SELECT m FROM t")
    assert cli(monkeypatch, "explain", str(script)) == 1
    assert "line 3, column 9" in capsys.readouterr().err


def test_an_interrupt_waits_until_the_work_has_ended() -> None:
    done: list[bool] = []

    def work() -> None:
        _thread.interrupt_main()
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interruptible(work)
    assert done == [True]
    assert interruptible(lambda: 7) == 7


def test_history_that_cannot_be_kept_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAMINAR_HISTORY", raising=False)
    assert isinstance(open_history(lambda name: str(tmp_path / name)), FileHistory)
    assert os.listdir(tmp_path / "laminar") == ["history"]  # noqa: PTH208
    (tmp_path / "file").touch()
    assert isinstance(open_history(lambda name: str(tmp_path / "file" / name)), InMemoryHistory)
