"""Whatever is sent to the console's port, it answers with a page, a code of ours, or by hanging up.

`make soak` sends LAMINAR_REQUESTS of them, others with each LAMINAR_SEED.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from .states import make_state
from .test_server import RUN

REQUESTS = int(os.environ.get("LAMINAR_REQUESTS", "300"))
SEED = int(os.environ.get("LAMINAR_SEED", "1"))
_AT_MOST = 60.0

METHODS = ["GET"] * 20 + ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "X" * 300, ""]
PATHS = [
    *("/", "/api/status", "/api/dag", "/api/epochs", "/api/epochs?limit=3", "/metrics"),
    *("/api/definitions/vwap", "/api/definitions/none", "/static/console.js", "/static/"),
    *("/static/../app.py", "/static/%2e%2e/%2e%2e/app.py", "/api/definitions/..%2f..%2fetc/passwd"),
    *("/api/epochs?limit=" + "9" * 5000, "/api/epochs?limit=-1", "/api/epochs?limit=%F0%9F%92%A9"),
    *("/api/definitions/" + "a" * 9000, "/api/definitions/%00", "/api/definitions/%ff%fe", "//"),
    *("/static/%00", "/static/" + "b" * 300, "*", "http://other/api/status", "", "/\u00e9", "/a b"),
]
HOSTS = [
    *["localhost"] * 20,
    *(
        "127.0.0.1:1",
        "[::1]:80",
        "evil.example",
        "[",
        "]",
        "[::1",
        "localhost:x",
        "",
        "\u00fc",
        ":",
    ),
    *("localhost, evil.example", "LOCALHOST", "a" * 5000, "localhost\x00"),
]
HEADERS = [
    *("If-None-Match: *", 'If-None-Match: W/"x", ,,', "Range: bytes=0-", "Range: bytes=9-1,x"),
    *(
        "Range: bytes=-99999999999999999999",
        "If-Range: x",
        "If-Modified-Since: never",
        "Upgrade: h2c",
    ),
    *("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x", "Expect: 100-continue"),
    *(
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        "Content-Length: x",
        "A" * 9000,
    ),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 3", ": x", "x"),
    *("Accept-Encoding: \u00e9", "Host: other", "Cookie: \x01\x02", " folded", "X:" + "y" * 70_000),
]
VERSIONS = ["HTTP/1.1"] * 40 + ["HTTP/1.0", "HTTP/2.0", "HTTP/9", "", "ICY"]
BODIES = [b""] * 6 + [
    b"{}",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"zz\r\n",
    b"\x00" * 4000,
    b"GET / HTTP/1.1",
]

ONCE_WRONG = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nRange: bytes=9-1,x\r\n\r\n",
    b"PUT /api/epochs HTTP/1.1\r\nHost: ]\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HEAD /static/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
]
"""Answered without a code, or with a traceback in the terminal."""

CODED = re.compile(r"LMR-\d{4}")
SERVERS_OWN = b"Invalid HTTP request received."
"""What uvicorn says to what is no HTTP; nothing of ours is asked then."""


def request(chance: random.Random) -> bytes:
    """Make up one request, with a few things wrong with it."""
    head = f"{chance.choice(METHODS)} {chance.choice(PATHS)} {chance.choice(VERSIONS)}"
    lines = [head, f"Host: {chance.choice(HOSTS)}"]
    lines += chance.sample(HEADERS, chance.choice([0, 0, 0, 0, 1, 1, 2]))
    made = "\r\n".join([*lines, "", ""]).encode() + chance.choice(BODIES)
    for _ in range(chance.choice([0, 0, 0, 0, 0, 0, 1, 3])):
        at = chance.randrange(len(made))
        made = made[:at] + chance.randbytes(chance.randrange(4)) + made[at + chance.randrange(9) :]
    return made[: chance.randrange(len(made))] if chance.random() < 0.1 else made


def answer(port: int, sent: bytes) -> bytes:
    """Send it, and return all that comes back until the console, or this end, hangs up."""
    with socket.create_connection(("127.0.0.1", port), _AT_MOST) as made:
        found = b""
        try:
            made.sendall(sent)
            # It waits for the rest of some: that keeps nobody else from being answered.
            assert kind_of(good(port)) == "200"
            made.shutdown(socket.SHUT_WR)
            while more := made.recv(65536):
                found += more
        except (ConnectionError, BrokenPipeError):
            pass  # it has hung up: it need not read what it does not want
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
        return found


def good(port: int) -> bytes:
    """Ask as anybody does; this end does not hang up."""
    with socket.create_connection(("127.0.0.1", port), _AT_MOST) as made:
        made.sendall(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: made.recv(65536), b""))


def kind_of(said: bytes, *, has_body: bool = True) -> str:
    """Tell what an answer is; it fails if it is one that nobody should get."""
    assert b"Traceback" not in said, said
    if not said:
        return "hung up"
    head, _, body = said.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    assert status < 500, said
    if status == 400 and SERVERS_OWN in body:
        return "no HTTP"
    if status >= 400 and has_body:
        error = json.loads(body[: _length(head)])["error"]
        assert CODED.fullmatch(error["code"]), error
    return str(status)


def _length(head: bytes) -> int:
    found = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    assert found is not None, head
    return int(found[1])


@contextmanager
def console(root: Path) -> Iterator[tuple[int, psutil.Process, Path]]:
    """A console in a process of its own: its port, the process, and what it says to nobody."""
    said = root.parent / "stderr"
    command = [sys.executable, "-c", RUN, "console", "--state", str(root), "--port", "0"]
    with (
        said.open("wb") as errors,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "COLUMNS": "500"},
        ) as running,
    ):
        try:
            assert running.stdout is not None
            url = running.stdout.readline().split(": ", 1)[1].split()[0]
            yield int(url.rstrip("/").rpartition(":")[2]), psutil.Process(running.pid), said
        finally:
            running.kill()


def test_whatever_is_sent_it_answers_and_goes_on(tmp_path: Path) -> None:
    chance, kinds = random.Random(SEED), Counter[str]()
    with console(make_state(tmp_path / "db")) as (port, process, said):
        for number in range(REQUESTS):
            sent = ONCE_WRONG[number] if number < len(ONCE_WRONG) else request(chance)
            try:
                said_to = answer(port, sent)
                kinds[kind_of(said_to, has_body=not sent.startswith(b"HEAD"))] += 1
                assert said.read_bytes() == b""
            except Exception as error:
                error.add_note(f"request {number} of seed {SEED}: {sent[:2000]!r}")
                raise
            if number == REQUESTS // 3:
                threads, handles = process.num_threads(), process.num_fds()
        assert process.num_threads() <= threads + 2
        assert process.num_fds() <= handles + 8
    sys.stdout.write(f"{REQUESTS} requests: {dict(kinds)}\n")
    assert {"200", "403", "404", "no HTTP"} <= kinds.keys()


@pytest.mark.parametrize(
    "wrong", [b"", b"HTTP/1.1 200 OK\r\n\r\nTraceback", b"HTTP/1.1 500 x\r\n\r\n"]
)
def test_an_answer_that_nobody_should_get_would_be_seen(wrong: bytes) -> None:
    if not wrong:
        assert kind_of(wrong) == "hung up"
        return
    with pytest.raises(AssertionError):
        kind_of(wrong)
