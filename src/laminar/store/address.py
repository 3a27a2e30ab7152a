"""Where a database is: a folder of this machine, resolved once, so that no chdir moves it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from laminar.errors.database import UnsupportedAddress

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/+)")


def local_path(given: str | Path) -> Path:
    """Return the folder that is meant, absolute and without links.

    A Path of an address has lost one of its slashes, and is the address all the same.

    Raises:
        UnsupportedAddress: it is an address of something else.
    """
    text = str(given)
    found = _ADDRESS.match(text)
    if found is None:
        return Path(given).resolve()
    if found[1].lower() != "file":
        raise UnsupportedAddress(text)
    rest = unquote(text[found.end(1) + 1 :])
    host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "/", rest[1:])
    if host not in ("", "localhost"):
        raise UnsupportedAddress(text, f"{host} is another machine: mount the folder")
    return Path(slash + path).resolve()
