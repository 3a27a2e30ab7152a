"""Statements good and bad, a line each: those of `parse.txt` are read, those of `run.txt` run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.sql import parse_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "statements"
REFUSED = re.compile(r"(LMR-\d{4})(?: at (\d+):(\d+))?")


def cases(name: str) -> list[tuple[str, str]]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    told = [line for line in lines if line and not line.startswith("#")]
    return [(text.strip(), expected.strip()) for text, expected in (_halves(each) for each in told)]


def _halves(line: str) -> tuple[str, str]:
    text, arrow, expected = line.rpartition("  =>  ")
    assert arrow, f"no expectation in: {line}"
    return text, expected


def refused(caught: laminar.LaminarError, expected: str) -> None:
    """Compare an error with `CODE` or `CODE at LINE:COLUMN`."""
    found = REFUSED.fullmatch(expected)
    assert found, f"{caught} but expected {expected}"
    code, line, column = found.groups()
    assert caught.code == code, str(caught)
    assert caught.message
    if line is not None:
        assert f"line {line}, column {column}\n" in caught.detail, str(caught)


PARSED = cases("parse.txt")
RUN = cases("run.txt")


def test_there_are_enough() -> None:
    assert len(PARSED) + len(RUN) >= 200
    assert len(set(PARSED)) == len(PARSED)


@pytest.mark.parametrize(("text", "expected"), PARSED, ids=[text for text, _ in PARSED])
def test_reading(text: str, expected: str) -> None:
    if expected == "ok":
        assert parse_script(text)
        return
    with pytest.raises(laminar.LaminarError) as caught:
        parse_script(text)
    refused(caught.value, expected)


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[laminar.Database]:
    """The database that all lines of `run.txt` share, in their order."""
    with laminar.connect(tmp_path_factory.mktemp("statements"), spark=spark) as opened:
        opened.execute(
            "CREATE TABLE t (id BIGINT, name STRING);"
            "CREATE TABLE k (id BIGINT PRIMARY KEY, v STRING NOT NULL);"
            "CREATE SOURCE src (id BIGINT PRIMARY KEY, v STRING);"
            "CREATE TABLE `Größe von` (`order` INT, `it's` STRING);"
            "CREATE MATERIALIZED VIEW s AS SELECT name, COUNT(*) AS n FROM t GROUP BY name;"
            "CREATE MATERIALIZED VIEW big AS SELECT name FROM s WHERE n > 1;"
            "INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'b');"
            "INSERT INTO k VALUES (1, 'one'), (2, 'two');"
            "INSERT INTO `Größe von` VALUES (1, 'x')"
        )
        opened.step()
        yield opened


@pytest.mark.spark
@pytest.mark.parametrize(("text", "expected"), RUN, ids=[text for text, _ in RUN])
def test_running(db: laminar.Database, text: str, expected: str) -> None:
    if REFUSED.fullmatch(expected):
        before = described(db)
        with pytest.raises(laminar.LaminarError) as caught:
            rows_of(db.execute(text))
        refused(caught.value, expected)
        assert described(db) == before
        return
    found = rows_of(db.execute(text))
    if expected != "ok":
        assert found == ast.literal_eval(expected)


def rows_of(result: Any) -> Any:
    return result.rows() if isinstance(result, laminar.Result) else result


def described(db: laminar.Database) -> tuple[Any, ...]:
    """What a statement that is refused must not have changed."""
    manifest = db.engine.ledger.manifest
    waiting = tuple(len(db.engine.ledger.pending.after(name, 0)) for name in ("t", "k", "src"))
    return manifest.epoch, manifest.revision, tuple(db.engine.defined.catalog.definitions), waiting
