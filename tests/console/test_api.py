"""What the API says, from the files of a folder alone."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from laminar.console.app import create_app
from laminar.console.folder import FRESH_SECONDS, Folder
from laminar.runtime.introspection.status import read_status
from laminar.store import ManifestStore

from .asking import Client
from .states import START, commit, make_state


class Seconds:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_state(tmp_path / "db")


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def client(root: Path, clock: Seconds) -> Client:
    return Client(create_app(Folder(root, clock, lambda: START + timedelta(seconds=63))))


def get(client: Client, path: str) -> Any:
    response = client.get(path)
    assert response.status == 200, response.text
    return response.json()


def fault(client: Client, path: str, status: int) -> dict[str, str]:
    response = client.get(path)
    assert response.status == status, response.text
    found: dict[str, str] = response.json()["error"]
    assert {"code", "message", "detail", "hint"} == set(found)
    return found


def test_status_is_what_the_command_says(client: Client, root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    told = get(client, "/api/status")
    same = json.loads(
        json.dumps(read_status(root, START + timedelta(seconds=63)).as_json(), allow_nan=False)
    )
    assert told == same
    assert (told["epoch"], told["age_seconds"]) == (3, 60)
    assert told["late_rows"] == {"vwap": 12}
    assert [each["epoch"] for each in told["checkpoints"]] == [2]
    for path in ("/api/dag", "/api/epochs", "/api/definitions/vwap", "/metrics", "/"):
        assert client.get(path).status == 200
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_dag_has_waves_shared_stages_groups_and_sinks(client: Client) -> None:
    told = get(client, "/api/dag")
    nodes = {each["name"]: each for each in told["nodes"]}
    assert {name: node["wave"] for name, node in nodes.items()} == {
        "trades": 0,
        "fees": 0,
        "normalized": 1,
        "vwap": 2,
        "anomalies": 2,
        "joined": 3,
        "too_late": 3,
        "out": 4,
    }
    assert [node["id"] for node in told["nodes"]] == list(range(8))
    assert {name for name, node in nodes.items() if node["shared"]} == {"normalized", "vwap"}
    assert nodes["normalized"]["consumers"] == 3
    assert {name for name, node in nodes.items() if node["group"] == 1} >= {
        "vwap",
        "anomalies",
        "joined",
    }
    types = {node["type"] for node in told["nodes"]}
    assert types == {"Source", "MaterializedView", "Sink"}
    edges = {(each["source"], each["target"]): each for each in told["edges"]}
    assert edges["trades", "normalized"]["channel_type"] == "SPSC"
    assert edges["normalized", "vwap"]["channel_type"] == "SPMC"
    assert edges["vwap", "joined"]["channel_type"] == "MPSC"
    assert (edges["joined", "out"]["cursor"], edges["vwap", "joined"]["cursor"]) == (1, 1)


def test_nodes_say_how_they_stand(client: Client, root: Path, clock: Seconds) -> None:
    nodes = {each["name"]: each for each in get(client, "/api/dag")["nodes"]}
    states = {name: node["state"] for name, node in nodes.items()}
    assert (states["trades"], states["anomalies"], states["joined"]) == (
        "running",
        "paused",
        "held",
    )
    # The sink is where what it reads is, though that is not the newest epoch.
    assert (states["out"], nodes["out"]["epoch"]) == ("running", 1)
    assert (nodes["trades"]["rows"], nodes["trades"]["rows_out"]) == (9, 3)
    assert [nodes["vwap"][each] for each in ("rows", "rows_out", "ms")] == [None, 2, 10.5]
    assert (nodes["fees"]["rows_out"], nodes["joined"]["ms"]) == (None, None)
    assert nodes["normalized"]["fused"] is True

    failure = {"count": 2, "reason": "1 / 0", "failed_at_ms": 0, "retry_at_ms": 0}
    said = {"views": [], "held": [{"name": "too_late", "reason": "not due: due at noon"}]}
    commit(
        root, 4, paused=[], held={"too_late": 1}, failures={"vwap": failure},
        report={**said, "rows_in": 0, "duration_ms": 1.0},
    )  # fmt: skip
    clock.at += FRESH_SECONDS
    nodes = {each["name"]: each for each in get(client, "/api/dag")["nodes"]}
    assert (nodes["vwap"]["state"], nodes["vwap"]["state_reason"]) == (
        "failing",
        "it failed; laminar_system.materialized_views says more",
    )
    assert nodes["too_late"]["state"] == "scheduled"
    assert (nodes["out"]["state"], nodes["out"]["epoch"]) == ("behind", 1)


def test_a_folder_of_before_outlines_is_read_by_its_texts(
    client: Client, root: Path, clock: Seconds
) -> None:
    commit(root, 4, views=None)
    clock.at += FRESH_SECONDS
    told = get(client, "/api/dag")
    edges = {(each["source"], each["target"]) for each in told["edges"]}
    # The text says "Trades": names are found whatever their case.
    assert ("trades", "normalized") in edges
    assert {("vwap", "joined"), ("anomalies", "joined"), ("vwap", "too_late")} <= edges
    found = get(client, "/api/definitions/vwap")
    assert (found["columns"], found["strategy"]) == (None, "incremental")


def test_epochs_come_oldest_first_with_what_each_did(
    client: Client, root: Path, clock: Seconds
) -> None:
    told = get(client, "/api/epochs")
    assert told["damaged"] == []
    assert [each["epoch"] for each in told["epochs"]] == [1, 2, 3]
    assert [each["late"] for each in told["epochs"]] == [{"vwap": 4}] * 3
    newest = told["epochs"][-1]
    assert (newest["rows_in"], newest["duration_ms"]) == (9, 103)
    assert newest["views"][1] == {
        "name": "vwap",
        "rows": 2,
        "ms": 10.5,
        "strategy": "incremental",
    }
    assert [each["epoch"] for each in get(client, "/api/epochs?limit=2")["epochs"]] == [2, 3]

    # A new revision of the newest epoch, an old one that was let go of, a damaged one.
    commit(root, 4)
    commit(root, 4, revision=1, report={"rows_in": 77, "duration_ms": 1, "views": []})
    store = ManifestStore(root)
    store.path_of(store.get(1)).unlink()
    damaged = store.path_of(store.get(3))
    clock.at += FRESH_SECONDS
    told = get(client, "/api/epochs")
    assert [(e["epoch"], e["rows_in"]) for e in told["epochs"]] == [(2, 6), (3, 9), (4, 77)]
    assert told["epochs"][0]["late"] is None
    damaged.write_bytes(b"{}")
    fresh = Client(create_app(Folder(root)))
    told = get(fresh, "/api/epochs")
    assert [each["epoch"] for each in told["epochs"]] == [2, 4]
    assert [Path(each).name for each in told["damaged"]] == [damaged.name]


def test_another_database_in_the_same_place_is_not_mixed_with_the_old(
    client: Client, root: Path, clock: Seconds
) -> None:
    get(client, "/api/epochs")
    root.rename(root.with_name("old"))
    for epoch in range(1, 6):
        commit(root, epoch, report={"rows_in": 5, "duration_ms": 1, "views": []})
    clock.at += FRESH_SECONDS
    assert [e["rows_in"] for e in get(client, "/api/epochs")["epochs"]] == [5] * 5
    assert get(client, "/api/status")["checkpoints"] == []
    for path in sorted((root / "manifests").iterdir()):
        path.unlink()
    for epoch in (1, 2):
        commit(root, epoch)
    clock.at += FRESH_SECONDS
    assert [e["rows_in"] for e in get(client, "/api/epochs")["epochs"]] == [3, 6]


def test_definitions_show_texts_columns_and_neighbours(client: Client) -> None:
    vwap = get(client, "/api/definitions/VWAP")
    assert vwap["sql"].startswith("CREATE MATERIALIZED VIEW vwap AS SELECT")
    assert vwap["columns"][1] == {"name": "n", "type": "bigint"}
    assert vwap["reads"] == ["normalized"]
    assert sorted(vwap["readers"]) == ["joined", "too_late"]
    assert vwap["options"]["schedule"] == "every epoch"
    trades = get(client, "/api/definitions/trades")
    assert [each["name"] for each in trades["columns"]] == ["id", "symbol", "ts"]
    assert (trades["reads"], trades["readers"]) == ([], ["normalized"])
    out = get(client, "/api/definitions/out")
    assert (out["kind"], out["reads"], len(out["columns"])) == ("sink (files)", ["joined"], 2)
    assert get(client, "/api/definitions/joined")["readers"] == ["out"]


def test_no_answer_holds_a_secret(client: Client) -> None:
    everything = [
        client.get(path).text
        for path in (
            "/api/status",
            "/api/dag",
            "/api/epochs",
            "/api/definitions/trades",
            "/api/definitions/out",
            "/metrics",
        )
    ]
    assert "hunter" not in "".join(everything)
    assert "'sasl.password' = '***'" in get(client, "/api/definitions/trades")["sql"]
    assert get(client, "/api/definitions/out")["options"] == {"path": "out", "token": "***"}


def test_nothing_is_sent_when_nothing_has_changed(
    client: Client, root: Path, clock: Seconds
) -> None:
    for path in ("/api/status", "/api/dag", "/api/epochs", "/api/definitions/vwap"):
        tag = client.get(path).headers["etag"]
        again = client.get(path, if_none_match=f'"other", {tag}')
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    tag = client.get("/api/status").headers["etag"]
    commit(root, 4)
    same = client.get("/api/status", if_none_match=tag)
    assert same.status == 304  # within the same moment the folder is not read again
    clock.at += FRESH_SECONDS
    assert client.get("/api/status", if_none_match=tag).json()["epoch"] == 4
    page = client.get("/static/console.js")
    assert client.get("/static/console.js", if_none_match=page.headers["etag"]).status == 304


def test_age_alone_is_no_news(root: Path) -> None:
    clock, moment = Seconds(), [START]
    folder = Folder(root, clock, lambda: moment[0])
    client = Client(create_app(folder))
    first = client.get("/api/status")
    clock.at, moment[0] = 100.0, START + timedelta(seconds=100)
    assert get(client, "/api/status")["age_seconds"] != first.json()["age_seconds"]
    tag = first.headers["etag"]
    assert client.get("/api/status", if_none_match=tag).status == 304


def test_mistakes_are_json_with_a_code_and_a_hint(client: Client) -> None:
    assert fault(client, "/api/nothing", 404)["code"] == "LMR-0005"
    assert fault(client, "/static/nothing.js", 404)["code"] == "LMR-0005"
    assert fault(client, "/static/../app.py", 404)["code"] == "LMR-0005"
    assert fault(client, "/static/%2e%2e/app.py", 404)["code"] == "LMR-0005"
    assert fault(client, "/nothing", 404)["message"] == "there is no /nothing"
    unknown = fault(client, "/api/definitions/vwapp", 404)
    assert (unknown["code"], unknown["hint"]) == ("LMR-3002", 'did you mean "vwap"?')
    for limit in ("0", "-1", "x", "1001", "²", ""):
        assert fault(client, f"/api/epochs?limit={limit}", 400)["code"] == "LMR-0005"
    posted = client.get("/api/status", method="POST")
    assert (posted.status, posted.json()["error"]["code"]) == (405, "LMR-0005")


HOSTILE = (
    *("9" * 5000, "1e3", "0x10", "+5", " 5", "1_0", "\x00", "%00", "%ff", "1;2", "٣", "9" * 9),
    *("a" * 100_000, "-" * 5000),
)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda each: each[:8].encode().hex())
def test_whatever_is_asked_the_answer_has_a_code(client: Client, text: str) -> None:
    for path in (
        f"/api/epochs?limit={text}",
        f"/api/definitions/{text}",
        f"/api/{text}",
        f"/static/{text}",
        f"/{text}",
    ):
        found = client.get(path)
        assert 400 <= found.status < 500, path[:40]
        error = found.json()["error"]
        assert error["code"] in ("LMR-0005", "LMR-3002")
        assert len(found.body) < 3 * len(path) + 1000
    for method in ("POST", "PUT", "DELETE", "BREW"):
        assert client.get(f"/api/status?x={text}", method=method).status == 405
    assert client.get(f"/api/status?{text}={text}").status == 200
    assert client.get("/api/status", if_none_match=text[:9000]).status == 200
    assert client.get("/api/status", host=text[:9000]).status == 403


def test_a_folder_that_is_gone_or_damaged_is_said_and_found_again(
    client: Client, root: Path, clock: Seconds
) -> None:
    assert get(client, "/api/status")["epoch"] == 3
    root.rename(root.with_name("away"))
    clock.at += FRESH_SECONDS
    assert fault(client, "/api/status", 503)["code"] == "LMR-6010"
    assert fault(client, "/metrics", 503)["code"] == "LMR-6010"
    root.with_name("away").rename(root)
    assert get(client, "/api/status")["epoch"] == 3
    newest = max((root / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes()[:-5])
    clock.at += FRESH_SECONDS
    assert fault(client, "/api/dag", 503)["code"] == "LMR-6001"


def test_a_mistake_of_ours_is_json_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Folder) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Folder, "snapshot", broken)
    assert fault(client, "/api/status", 500)["code"] == "LMR-0001"
    found = client.get("/api/status").headers
    assert found["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in found["content-security-policy"]

    def forbidden(_: Folder) -> None:
        raise PermissionError(13, "Permission denied", "manifests")

    monkeypatch.setattr(Folder, "snapshot", forbidden)
    assert "Permission denied" in fault(client, "/api/status", 503)["detail"]


def test_it_answers_to_its_own_names_only(client: Client, root: Path) -> None:
    for host in ("localhost:8410", "127.0.0.1", "[::1]:8410", "LOCALHOST"):
        assert client.get("/api/status", host=host).status == 200
    refused = client.get("/api/status", host="attacker.example")
    assert (refused.status, refused.json()["error"]["code"]) == (403, "LMR-0005")
    anybody = Client(create_app(Folder(root), None))
    assert anybody.get("/api/status").status == 200
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
