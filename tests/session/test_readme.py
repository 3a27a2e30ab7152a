"""The examples of the README run, one after the other, as somebody would type them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import laminar

README = Path(__file__).parents[2] / "README.md"


def test_the_examples_of_the_readme_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(laminar, "connect", partial(laminar.connect, spark=spark))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    with laminar.connect("state_dir") as db:
        assert db.sql("SELECT COUNT(*) FROM averages").rows() == [(2,)]
        assert db.sql("SELECT * FROM volumes ORDER BY 1").rows() == [("A", 160), ("B", 10)]
