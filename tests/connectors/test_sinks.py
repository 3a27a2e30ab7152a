"""Sinks by name; what the files sink writes, over Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.connectors.sink import SinkSpec, create_sink, register_sink, sink_connectors
from laminar.connectors.sink_files import FilesSink
from laminar.model.schema import Schema
from laminar.store.cursors import CursorStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spec(**options: str) -> SinkSpec:
    return SinkSpec("k", "v", Schema.parse("id INT, tags ARRAY<STRING>"), options)


class Collecting:
    def __init__(self) -> None:
        self.closed = False

    def write(self, epoch: int, delta: Any) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def test_a_connector_of_ones_own() -> None:
    made: list[Collecting] = []

    def build(_spec: SinkSpec) -> Collecting:
        made.append(Collecting())
        return made[-1]

    register_sink("Collecting", build)
    assert "collecting" in sink_connectors()
    assert create_sink("COLLECTING", spec()) is made[0]
    with pytest.raises(laminar.UnknownOption):
        create_sink("collecting", spec(unused="1"))
    assert made[1].closed


@pytest.mark.parametrize(
    ("connector", "options", "error"),
    [
        ("nowhere", {}, laminar.UnknownConnector),
        ("files", {}, laminar.MissingOption),
        ("files", {"path": "s3://x/y"}, laminar.BadOption),
        ("files", {"path": "out", "format": "xml"}, laminar.BadOption),
        ("files", {"path": "out", "format": "csv"}, laminar.BadOption),
        ("console", {"limit": "0"}, laminar.BadOption),
    ],
)
def test_what_is_refused(
    connector: str, options: dict[str, str], error: type[laminar.LaminarError]
) -> None:
    with pytest.raises(error):
        create_sink(connector, spec(**options))


def test_cursors_last(tmp_path: Path) -> None:
    cursors = CursorStore(tmp_path)
    assert cursors.get("k") is None
    cursors.advance("k", 3)
    cursors.advance("k", 4)
    cursors.advance("Größe", 1)
    again = CursorStore(tmp_path)
    assert [(each.consumer, each.epoch) for each in again.all()] == [("Größe", 1), ("k", 4)]
    assert again.get("other") is None
    again.forget("k")
    again.keep_only(["k"])
    assert CursorStore(tmp_path).get("Größe") is None


@pytest.mark.spark
def test_an_epoch_is_one_whole_file_however_few_rows_a_file_may_have(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark splits what it writes under this setting; only the last part was kept."""
    session = spark.newSession()
    session.conf.set("spark.sql.files.maxRecordsPerFile", "2")
    FilesSink(tmp_path, "json").write(7, session.range(9).selectExpr("id", "1L AS __weight"))
    (path,) = tmp_path.iterdir()
    assert (path.name, len(path.read_text().splitlines())) == ("000000000007.json", 9)
