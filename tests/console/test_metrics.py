"""Metrics as Prometheus reads them."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from laminar.console.app import create_app
from laminar.console.folder import Folder
from laminar.store import ManifestStore

from .asking import Client
from .states import START, commit, make_state

Values = dict[tuple[str, str], float]
DOCS = Path(__file__).parents[2] / "docs" / "console.md"


def scrape(root: Path) -> Values:
    folder = Folder(root, now=lambda: START + timedelta(seconds=63))
    answer = Client(create_app(folder)).get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Values:
    return scrape(make_state(tmp_path_factory.mktemp("metrics") / "db"))


def test_epochs_views_and_relations_are_told(values: Values) -> None:
    assert values["laminar_epoch", ""] == 3
    assert values["laminar_oldest_epoch", ""] == 1
    assert values["laminar_epoch_duration_seconds", ""] == pytest.approx(0.103)
    assert values["laminar_epoch_rows_in", ""] == 9
    assert values["laminar_view_rows_out", "vwap"] == 2
    assert values["laminar_view_duration_seconds", "vwap"] == pytest.approx(0.0105)
    assert values["laminar_relation_rows", "trades"] == 9
    assert ("laminar_relation_rows", "vwap") not in values  # it has accumulators, not rows
    assert values["laminar_relation_stored_rows", "vwap"] == 2
    assert values["laminar_relation_segments", "trades"] == 3
    assert values["laminar_relation_bytes", "trades"] > 0
    assert values["laminar_relation_pending_rows", "fees"] == 2
    assert values["laminar_relation_epoch", "joined"] == 1


def test_states_time_and_checkpoints_are_told(values: Values) -> None:
    assert values["laminar_views", "paused"] == 1
    assert values["laminar_views", "held"] == 1
    assert values["laminar_views", "running"] == 3
    assert values["laminar_views", "failing"] == 0
    assert values["laminar_view_state", "paused anomalies"] == 1
    assert values["laminar_watermark_lag_seconds", "trades"] == 63
    assert values["laminar_watermark_timestamp_seconds", "trades"] == START.timestamp()
    assert ("laminar_watermark_lag_seconds", "vwap") not in values  # it has ended
    assert values["laminar_late_rows_total", "vwap"] == 12
    assert values["laminar_checkpoints", ""] == 1
    assert values["laminar_checkpoint_epoch", ""] == 2
    assert values["laminar_checkpoint_age_seconds", ""] == 63


def test_what_has_not_happened_is_not_zero(tmp_path: Path) -> None:
    commit(tmp_path, 0, report=None)
    found = scrape(tmp_path)
    assert found["laminar_epoch", ""] == 0
    assert ("laminar_epoch_duration_seconds", "") not in found
    assert found["laminar_checkpoints", ""] == 0
    assert ("laminar_checkpoint_age_seconds", "") not in found
    assert ManifestStore(tmp_path).epochs() == (0,)


def test_the_documentation_lists_all_of_them(values: Values) -> None:
    told = {name for name, _ in values}
    listed = set(re.findall(r"`(laminar_\w+)`", DOCS.read_text(encoding="utf-8")))
    assert listed == told
