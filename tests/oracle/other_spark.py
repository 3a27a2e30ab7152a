"""The turn of another Spark in a random sequence: it opens a folder, changes rows, and compares.

`python -m oracle.other_spark FILE` in an environment with another version; FILE has what to
do, and then what is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .wild import Standing, WildRun
from .wild_cases import WildCase

ROOT = Path(__file__).parents[2]


class OtherSpark:
    """Another interpreter, with a Spark of its own."""

    def __init__(self, python: str, scratch: Path) -> None:
        self._python = python
        self._file = scratch / "turn.json"

    def version(self) -> str:
        """Return which Spark it has."""
        return self._run("-c", "import pyspark; print(pyspark.__version__)").strip()

    def __call__(
        self, path: Path, case: WildCase, standing: Standing, change: list[Any]
    ) -> Standing:
        """Let it change what is in a folder; what it finds wrong fails here."""
        told = {
            "path": str(path),
            "case": asdict(case),
            "standing": asdict(standing),
            "change": change,
        }
        self._file.write_text(json.dumps(told), encoding="utf-8")
        self._run("-m", "oracle.other_spark", str(self._file))
        return Standing(**json.loads(self._file.read_text(encoding="utf-8")))

    def _run(self, *arguments: str) -> str:
        paths = [str(ROOT / "src"), str(ROOT / "tests")]
        found = subprocess.run(
            [self._python, *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "PYSPARK_PYTHON": self._python,
                "LAMINAR_SPARK": "portable",  # internals of others are not known well enough
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if found.returncode:
            said = f"{found.stdout}\n{found.stderr}"
            raise AssertionError(f"the other Spark: {said[said.rfind('Traceback') :]}")
        return found.stdout


def main(file: Path) -> None:
    """Take the turn that a file describes, in this process."""
    from pyspark.sql import SparkSession

    told = json.loads(file.read_text(encoding="utf-8"))
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(file.parent),
    }
    builder = SparkSession.builder.master("local[2]").appName("laminar-other")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    run = WildRun(WildCase(**told["case"]), spark, Path(told["path"]))
    left = run.go_on(Standing(**told["standing"]), told["change"], f"Spark {spark.version}")
    file.write_text(json.dumps(asdict(left)), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
