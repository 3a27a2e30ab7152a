"""The console as a web application: one page, a small API, and metrics. Nothing can be changed."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from laminar.console import answers
from laminar.console.folder import Folder
from laminar.errors import BadRequest, LaminarError, UnknownRelation

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

DEFAULT_EPOCHS, MOST_EPOCHS = 60, 1000

_MOST_DIGITS, _SHOWN = 9, 40

_VOLATILE = frozenset({"age_seconds"})
"""What changes by itself as time goes by; a client can work it out."""

_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def create_app(folder: Folder, hosts: frozenset[str] | None = LOOPBACK_NAMES) -> ASGIApp:
    """Build the application.

    Args:
        folder: what it shows.
        hosts: the names by which it may be called; None means any.
    """

    def status(request: Request) -> Response:
        return _tagged(request, answers.status(folder.snapshot()))

    def dag(request: Request) -> Response:
        return _tagged(request, answers.dag(folder.snapshot()))

    def epochs(request: Request) -> Response:
        return _tagged(request, answers.epochs(folder.snapshot(), _limit(request)))

    def definition(request: Request) -> Response:
        found = answers.definition(folder.snapshot(), request.path_params["name"])
        return _tagged(request, found)

    def metrics(_: Request) -> Response:
        from laminar.console.metrics import CONTENT_TYPE, metrics_text

        body = metrics_text(folder.snapshot())
        return Response(body, headers={"content-type": CONTENT_TYPE})

    def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    routes = [
        Route("/", page),
        Route("/api/status", status),
        Route("/api/dag", dag),
        Route("/api/epochs", epochs),
        Route("/api/definitions/{name:path}", definition),
        Route("/metrics", metrics),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: Mapping[Any, Callable[[Request, Exception], Response]] = {
        LaminarError: _refused,
        HTTPException: _not_here,
        OSError: _unreadable,
        Exception: _broken,
    }
    # Around all of it: Starlette answers a mistake of ours outside of its own middleware.
    return _Guard(Starlette(routes=routes, exception_handlers=handlers), hosts)


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(DEFAULT_EPOCHS))
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not (is_number and 1 <= int(text) <= MOST_EPOCHS):
        given = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        raise BadRequest(f"limit is a number from 1 to {MOST_EPOCHS}, not {given!r}", status=400)
    return int(text)


def _tagged(request: Request, found: Mapping[str, Any]) -> Response:
    """Answer with a tag of what was said; with nothing, if the caller has that already.

    The tag is weak: two answers with the same one may differ in what time alone changes.
    """
    lasting = {key: value for key, value in found.items() if key not in _VOLATILE}
    text = json.dumps(lasting, ensure_ascii=False, separators=(",", ":"))
    tag = f'W/"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"'
    given = request.headers.get("if-none-match", "")
    if tag in (each.strip() for each in given.split(",")):
        return Response(status_code=304, headers={"etag": tag})
    return JSONResponse(found, headers={"etag": tag})


def _error(error: LaminarError, status: int) -> JSONResponse:
    fields = ("code", "message", "detail", "hint")
    return JSONResponse(
        {"error": {name: getattr(error, name) for name in fields}}, status_code=status
    )


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, LaminarError)
    if isinstance(error, BadRequest):
        return _error(error, error.status)
    # All else is about the folder, which may be whole again with the next request.
    return _error(error, 404 if isinstance(error, UnknownRelation) else 503)


def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return _error(BadRequest("the console only reads: use GET", status=405), 405)
    return _error(BadRequest(f"there is no {request.url.path}"), error.status_code)


def _unreadable(_: Request, error: Exception) -> Response:
    fact = LaminarError(
        "the database's folder cannot be read", detail=str(error), hint="check its permissions"
    )
    return _error(fact, 503)


def _broken(request: Request, error: Exception) -> Response:
    log.error("request failed", extra={"path": request.url.path})
    hint = "this should not happen; the terminal of the console shows where it did"
    return _error(LaminarError("something broke inside", detail=repr(error), hint=hint), 500)


class _Guard:
    """Answers only to its own names, and says how its answers may be used.

    A page of somebody else's could otherwise give its own name the address of this machine, and
    then read what the console says.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if "accept-ranges" in headers:
                    headers["accept-ranges"] = "none"
            await send(message)

        name = _host_name(Headers(scope=scope).get("host", ""))
        if self._hosts is not None and name not in self._hosts:
            error = BadRequest(f"this console does not answer to {name!r}", status=403)
            await _error(error, 403)(scope, receive, with_headers)
            return
        await self._app(_whole(scope), receive, with_headers)


def _whole(scope: Scope) -> Scope:
    """Ask for all of a page: what is wrong with a range would be told without a code."""
    kept = [each for each in scope["headers"] if each[0].lower() not in (b"range", b"if-range")]
    return {**scope, "headers": kept}


def _host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
