"""The source and the sink of the page about connectors do what it says."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import laminar
from laminar.errors import BadOption, MissingOption, UnknownOption

PAGE = Path(__file__).parents[2] / "docs" / "connectors.md"


def test_the_connectors_of_the_page_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for kind, block in zip(("Source", "Sink"), blocks, strict=True):
        shown = re.search(rf"class \w+{kind}:.*?(?=\n\n\n)", block, re.DOTALL)
        assert shown is not None
        assert shown[0].count("\n") <= 40
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(laminar, "connect", partial(laminar.connect, spark=spark))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    told, written = capsys.readouterr().out.splitlines()
    assert told == "[(30, 1)]"
    assert json.loads(written) == {"epoch": 2, "rows": [[35, 2]]}

    with laminar.connect("shop") as db:
        db.execute(
            "CREATE SOURCE again (id BIGINT, total BIGINT)"
            " WITH (connector = 'journal', path = 'orders.log')"
        )
        db.step()
        found = db.sql("SELECT id, total FROM again ORDER BY id").rows()
        assert found == [(2, 30), (3, 5)]
        refused = {
            "path = 'x', moost = '5'": UnknownOption,
            "most = '5'": MissingOption,
            "path = 'x', most = '0'": BadOption,
        }
        for options, error in refused.items():
            with pytest.raises(error):
                db.execute(
                    "CREATE SOURCE x (id BIGINT, total BIGINT) "
                    f"WITH (connector = 'journal', {options})"
                )
        listed = dict(row[::2] for row in db.execute("SHOW CONNECTORS").rows())
        assert listed["journal"] == "a journal of orders that come and go"
        described = db.execute("DESCRIBE CONNECTOR journal").rows()
        assert described[1] == (
            "most", "source journal", "integer", "1000", "", "", "lines of an epoch at most"
        )  # fmt: skip
        assert described[2][:2] == ("backpressure", "any source")
        rows = db.sql("SELECT options FROM laminar_system.connectors WHERE name = 'ledger'").rows()
        assert rows == [(["path"],)]
