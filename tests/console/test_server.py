"""Starting and ending the console."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from laminar.cli import main
from laminar.console import server
from laminar.console.server import is_loopback, listen, url_of
from laminar.errors import DatabaseNotFound, PortUnavailable

from .states import make_state

RUN = "from laminar.cli import main; main()"

WATCHED = """
import atexit, sys
atexit.register(lambda: print("spark loaded:", "pyspark" in sys.modules))
"""


def test_it_serves_beside_nothing_and_ends_quietly(tmp_path: Path) -> None:
    root = make_state(tmp_path / "db")
    running = subprocess.Popen(
        [sys.executable, "-c", WATCHED + RUN, "console", "--state", str(root), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "500"},
    )
    try:
        assert running.stdout is not None
        said = running.stdout.readline()
        url = said.split(": ", 1)[1].split()[0]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}api/status", timeout=20) as answer:
            assert json.load(answer)["epoch"] == 3
        for path in ("", "api/dag", "api/epochs", "api/definitions/vwap", "metrics"):
            with urllib.request.urlopen(url + path, timeout=20) as answer:
                assert answer.status == 200
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    finally:
        running.kill()
        running.wait()
    assert (running.returncode, out, err) == (0, "spark loaded: False\n", "")


def test_a_port_that_is_taken_is_refused() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortUnavailable, match=f"port {port}") as refused:
            listen("127.0.0.1", port)
        assert refused.value.reason == "address already in use"
        assert "--port 0" in refused.value.hint


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 300])
def test_a_host_that_is_none_of_ours_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if host.endswith(".invalid"):

        def unknown(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(PortUnavailable):
        listen(host, 0)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["laminar", "console", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--state", str(tmp_path / "none")) == 1
    assert "LMR-6010" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    root = make_state(tmp_path / "db", 1)
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert run(monkeypatch, "--state", str(root), "--port", port) == 1
    assert "LMR-0004" in capsys.readouterr().err
    for port in ("65536", "-1", "many"):
        assert run(monkeypatch, "--state", str(root), "--port", port) == 2
    monkeypatch.chdir(tmp_path / "db" / "data")
    assert run(monkeypatch) == 1


def test_it_warns_when_others_can_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_state(tmp_path / "db", 1)
    served: list[bool] = []
    opened: list[str] = []
    monkeypatch.setattr(server, "run", lambda _, listener: served.append(is_loopback(listener)))
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("COLUMNS", "500")
    given = ("--state", str(root), "--port", "0")
    assert run(monkeypatch, *given, "--host", "0.0.0.0", "--no-open") == 0
    said = capsys.readouterr()
    assert "http://0.0.0.0:" in said.out
    assert "no password" in said.err
    assert run(monkeypatch, *given, "--host", "localhost", "--open") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert served == [False, True]
    # The browser is opened by a thread of its own, which may not have run yet.
    assert all(url.startswith("http://localhost:") for url in opened)


def test_addresses_are_written_as_urls() -> None:
    with listen("127.0.0.1", 0) as found:
        port = found.getsockname()[1]
        assert url_of(found, "localhost") == f"http://localhost:{port}/"
        assert url_of(found, "::1") == f"http://[::1]:{port}/"
        assert is_loopback(found)


def test_there_must_be_a_database_before_it_listens(tmp_path: Path) -> None:
    with pytest.raises(DatabaseNotFound):
        server.serve(tmp_path, "127.0.0.1", 0, browser=False, say=print, warn=print)
