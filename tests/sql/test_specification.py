"""The specification's own SQL, word for word, becomes the statements it describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.errors import SqlSyntaxError
from laminar.sql import (
    CreateTable,
    CreateView,
    Drop,
    Emit,
    EmitKind,
    Explain,
    ExplainDag,
    Query,
    RelationKind,
    Show,
    ShowKind,
    Watermark,
    forbidden_functions,
    parse_script,
    relations_of,
    rewrite_windows,
)

FIXTURES = Path(__file__).parent / "fixtures"


def block(name: str) -> str:
    return (FIXTURES / f"{name}.sql").read_text(encoding="utf-8")


def test_the_trades_dag() -> None:
    source, *views = parse_script(block("trades_dag"))
    assert isinstance(source, CreateTable)
    assert (source.name, source.kind) == ("raw_trades", RelationKind.SOURCE)
    assert source.schema.ddl() == (
        "trade_id bigint, symbol string, price double, volume bigint, event_time timestamp"
    )
    assert source.watermark == Watermark("event_time", "event_time - INTERVAL '5' SECOND")
    assert source.options == {"connector": "kafka", "topic": "raw-trades", "format": "json"}
    found = [
        (view.name, relations_of(rewrite_windows(view.query)), view.emit)
        for view in views
        if isinstance(view, CreateView)
    ]
    assert found == [
        ("normalized_trades", ("raw_trades",), None),
        ("vwap", ("normalized_trades",), Emit(EmitKind.AFTER_WATERMARK)),
        ("anomalies", ("normalized_trades",), None),
        ("position_tracker", ("normalized_trades",), Emit(EmitKind.ON_UPDATE)),
    ]
    vwap = views[1]
    assert isinstance(vwap, CreateView)
    assert vwap.query.endswith("GROUP BY symbol, TUMBLE(event_time, INTERVAL '1' MINUTE)")
    assert rewrite_windows(vwap.query).endswith("GROUP BY symbol, window(event_time, '1 minute')")
    assert len(views) == 4


def test_introspection() -> None:
    topology, dependencies, explained = parse_script(block("introspection"))
    assert isinstance(topology, Query)
    assert relations_of(topology.text) == ("laminar_system.dag_topology",)
    assert isinstance(dependencies, Show)
    assert (dependencies.what, dependencies.name) == (ShowKind.DEPENDENCIES, "vwap")
    assert isinstance(explained, Explain)
    assert explained.target == ExplainDag()


def test_the_cascade_of_bars() -> None:
    views = parse_script(block("ohlc_cascade"))
    chain = []
    for view in views:
        assert isinstance(view, CreateView)
        assert forbidden_functions(view.query) == []
        chain.append((view.name, *relations_of(rewrite_windows(view.query))))
    assert chain == [("ohlc_1s", "trades"), ("ohlc_1m", "ohlc_1s"), ("ohlc_1h", "ohlc_1m")]


def test_the_syntax_of_a_cascade() -> None:
    # The block opens with a template in angle brackets, which is no SQL; the rest is.
    template, statements = block("cascade_syntax").split("-- Example", 1)
    with pytest.raises(SqlSyntaxError):
        parse_script(template)
    view, drop, show = parse_script(f"-- Example{statements}")
    assert isinstance(view, CreateView)
    assert (view.name, view.emit) == ("ohlc_1m", Emit(EmitKind.AFTER_WATERMARK))
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.name, drop.cascade) == (RelationKind.VIEW, "ohlc_1m", True)
    assert isinstance(show, Show)
    assert show.name == "ohlc_1h"
