"""Serving the console until Ctrl-C."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from laminar.console.folder import Folder
from laminar.errors import PortUnavailable

Say = Callable[[str], None]


def serve(root: Path, host: str, port: int, *, browser: bool | None, say: Say, warn: Say) -> None:
    """Serve the console of a folder until it is interrupted.

    Args:
        root: the database's folder.
        host: a name or address of this machine.
        port: 0 takes one that is free.
        browser: whether to open the page; None means if somebody sits there.
        say: told where the console is.
        warn: told what is not safe.

    Raises:
        DatabaseNotFound: there is no database in the folder.
        PortUnavailable: the port is taken, or is no port of this machine.
    """
    folder = Folder(root)
    folder.snapshot()
    listener = listen(host, port)
    with listener:
        url = url_of(listener, host)
        if not is_loopback(listener):
            warn(
                f"whoever can reach {url} can read names, SQL and row counts: there is no password"
            )
        say(f"Laminar console of {root}: {url}  (Ctrl-C ends)")
        if _has_desktop() if browser is None else browser:
            # It may take its time, and the first request waits in the listener's queue.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        run(folder, listener)


def run(folder: Folder, listener: socket.socket) -> None:
    """Answer what comes in at a socket, until interrupted."""
    import uvicorn

    from laminar.console.app import LOOPBACK_NAMES, create_app

    hosts = LOOPBACK_NAMES if is_loopback(listener) else None
    config = uvicorn.Config(
        create_app(folder, hosts),
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(_is_ours)
    # When it has ended everything, uvicorn raises once more what told it to.
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether what the server says is of us: not of a request that turned out to be no HTTP.

    Its body was broken, while it was answered already.
    """
    error = None if record.exc_info is None else record.exc_info[1]
    return type(error).__name__ != "LocalProtocolError"  # of h11, which only uvicorn knows


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise if there cannot be one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            # Otherwise a console that was ended a moment ago would keep its port for a minute.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        raise PortUnavailable(host, port, _reason(error)) from None
    return listener


def url_of(listener: socket.socket, host: str) -> str:
    """Return the address of the page, with the port that was really taken."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}/"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _has_desktop() -> bool:
    """Whether somebody sits at this machine and has a browser with windows."""
    if not sys.stdout.isatty():
        return False
    is_unix = sys.platform not in ("darwin", "win32")
    return not is_unix or any(each in os.environ for each in ("DISPLAY", "WAYLAND_DISPLAY"))
