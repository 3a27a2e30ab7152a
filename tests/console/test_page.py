"""The page fits the API: it asks for nothing that is not there, and nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest

from laminar.console.app import STATIC, create_app
from laminar.console.folder import Folder

from .asking import Client
from .states import make_state

PAGE = (STATIC / "index.html").read_text(encoding="utf-8")
SCRIPT = (STATIC / "console.js").read_text(encoding="utf-8")
STYLE = (STATIC / "console.css").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(create_app(Folder(make_state(tmp_path_factory.mktemp("page") / "db"))))


@pytest.fixture(scope="module")
def answers(client: Client) -> dict[str, dict[str, Any]]:
    """Name of a variable in the script -> an object of the API that it stands for."""
    status = client.get("/api/status").json()
    dag = client.get("/api/dag").json()
    history = client.get("/api/epochs").json()
    definition = client.get("/api/definitions/vwap").json()
    return {
        "status": status,
        "relation": status["relations"][0],
        "checkpoint": status["checkpoints"][0],
        "dag": dag,
        "node": dag["nodes"][0],
        "edge": dag["edges"][0],
        "history": history,
        "epoch": history["epochs"][-1],
        "view": history["epochs"][-1]["views"][0],
        "definition": definition,
        "column": definition["columns"][0],
        "fault": client.get("/nothing").json()["error"],
    }


def fields_used(variable: str) -> set[str]:
    return set(re.findall(rf"(?<![\w.\"'`-]){variable}\.(\w+)", SCRIPT))


def test_every_field_that_the_script_reads_is_in_the_api(
    answers: dict[str, dict[str, Any]],
) -> None:
    for variable, answer in answers.items():
        used = fields_used(variable)
        assert used, f"{variable} is not used, or the pattern does not find it"
        assert used <= set(answer), f"{variable}: {used - set(answer)}"


def test_a_field_that_is_missing_would_be_found(answers: dict[str, dict[str, Any]]) -> None:
    assert "rows_in" in fields_used("epoch")
    assert "channel_type" in fields_used("edge")
    assert not fields_used("epoch") <= set(answers["epoch"]) - {"rows_in"}


def test_every_path_that_the_script_asks_for_is_there(client: Client) -> None:
    paths = set(re.findall(r'["`](api/[\w/?=&]+)', SCRIPT))
    assert paths == {"api/status", "api/dag", "api/epochs?limit=60", "api/definitions/"}
    for path in paths - {"api/definitions/"}:
        assert client.get(f"/{path}").status == 200


def test_the_page_names_only_what_it_brings_along(client: Client) -> None:
    named = re.findall(r'(?:href|src)="([^"#][^"]*)"', PAGE)
    own = [each for each in named if not each.startswith("data:")]
    assert {"static/console.css", "static/console.js"} <= set(own)
    for each in own:
        answer = client.get(f"/{each}")
        assert answer.status == 200, each
        assert "nosniff" in answer.headers["x-content-type-options"]
    assert {path.name for path in STATIC.iterdir()} == {"index.html", "console.css", "console.js"}
    assert client.get("/").headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("text", [PAGE, SCRIPT, STYLE], ids=["page", "script", "style"])
def test_nothing_comes_from_elsewhere(text: str) -> None:
    hosts = set(re.findall(r"(?:https?:)?//([\w.-]+\.\w+)", text))
    assert hosts <= {"www.w3.org"}  # the name of SVG, which nobody fetches
    assert "@import" not in text
    assert "url(" not in text


def test_what_the_policy_forbids_is_not_used() -> None:
    assert not re.findall(r"\son\w+=|\sstyle=|<style|<script>", PAGE)
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|document\.write", SCRIPT
    )


def test_ids_and_labels_fit_together() -> None:
    ids = re.findall(r'\bid="([^"]+)"', PAGE)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'byId\("([^"]+)"\)', SCRIPT)) <= set(ids)
    assert set(re.findall(r'aria-labelledby="([^"]+)"', PAGE)) <= set(ids)
    sections = re.findall(r"<section[^>]*>", PAGE)
    assert len(sections) == 4
    assert all("aria-labelledby" in each for each in sections)
    assert '<html lang="en">' in PAGE
