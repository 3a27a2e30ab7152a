"""Requests to an application, without a server and without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks an application as a browser on the same machine would."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask; in the names of headers `_` stands for `-`."""
        return asyncio.run(self._ask(path, method, {"host": "localhost:8410", **headers}))

    async def _ask(self, path: str, method: str, headers: Mapping[str, str]) -> Answer:
        url = urlsplit(path)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(url.path),
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "root_path": "",
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8410),
        }
        answer = Answer()
        asked = iter([True])

        async def receive() -> Message:
            if not next(asked, False):
                # Whoever asks again waits for the caller to hang up, which never happens.
                await asyncio.get_running_loop().create_future()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        try:
            await self.app(scope, receive, send)
        except Exception:
            # Starlette answers first, and then lets the server know.
            if answer.status != 500:
                raise
        return answer
