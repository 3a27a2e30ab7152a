from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar.connectors import (
    ArrowSource,
    ClosingSource,
    ExplainingSource,
    Offset,
    Source,
    SourceSpec,
    close,
    create_source,
    explain_failure,
    read_arrow,
    register_source,
    source_connectors,
)
from laminar.errors import SourceReadFailed, UnknownConnector, UnknownOption
from laminar.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = Schema.parse("a bigint")


class Scripted:
    """The least that is a source, and a count of how often it was closed."""

    append_only = True

    def __init__(self, spec: SourceSpec) -> None:
        self.size = spec.options.get("size", "1")
        self.closed = 0

    def latest_offset(self, start: Offset | None) -> Offset | None:
        return None if start else 1

    def read(self, spark: SparkSession, start: Offset | None, end: Offset) -> DataFrame:
        raise NotImplementedError

    def close(self) -> None:
        self.closed += 1


def test_the_connectors_that_come_along() -> None:
    assert {"files", "datagen"} <= set(source_connectors())


def test_an_unknown_connector_suggests_the_nearest() -> None:
    with pytest.raises(UnknownConnector) as error:
        create_source("datagne", SourceSpec("s", SCHEMA))
    assert error.value.suggestion == "datagen"


def test_a_connector_is_found_whatever_its_case() -> None:
    assert isinstance(create_source("DataGen", SourceSpec("s", SCHEMA)), Source)


def test_a_connector_of_ones_own_uses_its_options_or_is_closed_again() -> None:
    built: list[Scripted] = []

    def factory(spec: SourceSpec) -> Source:
        built.append(Scripted(spec))
        return built[-1]

    register_source("scripted", factory)
    source = create_source("scripted", SourceSpec("s", SCHEMA, {"size": "5"}))
    assert isinstance(source, Scripted)
    assert (source.size, source.closed) == ("5", 0)
    with pytest.raises(UnknownOption) as error:
        create_source("scripted", SourceSpec("s", SCHEMA, {"sise": "5"}))
    assert error.value.suggestion == "size"
    assert built[-1].closed == 1


def test_what_a_source_can_do_beyond_reading_is_seen(tmp_path: Path) -> None:
    plain = Scripted(SourceSpec("s", SCHEMA))
    assert isinstance(plain, ClosingSource)
    assert not isinstance(plain, ArrowSource)
    assert read_arrow(plain, None, 1) is None
    options = {"path": str(tmp_path), "format": "json"}
    files = create_source("files", SourceSpec("s", SCHEMA, options))
    assert isinstance(files, ArrowSource)
    assert isinstance(files, ExplainingSource)
    assert not isinstance(files, ClosingSource)
    close(files)
    close(plain)
    assert plain.closed == 1


def test_a_failure_nobody_can_explain_keeps_its_cause() -> None:
    source, cause = Scripted(SourceSpec("s", SCHEMA)), RuntimeError("disk on fire\n  at line 3")
    spark: SparkSession = None  # type: ignore[assignment]  # It is not asked for.
    found = explain_failure(source, "s", spark, None, 1, cause)
    assert isinstance(found, SourceReadFailed)
    assert found.detail == "disk on fire"
    assert found.__cause__ is cause
    assert explain_failure(source, "s", spark, None, 1, found) is found
