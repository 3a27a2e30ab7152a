"""JSON with its checksum on the next line: whole and unchanged, or refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


class Unsealed(Exception):
    """The bytes are not what was written; the message says how that is known."""


def seal(values: Mapping[str, Any]) -> bytes:
    """Return plain values as bytes that know their checksum."""
    body = json.dumps(values, separators=(",", ":"), allow_nan=False).encode("ascii")
    return body + b"\n" + _checksum(body) + b"\n"


def unseal(data: bytes) -> Any:
    """Read values back.

    Raises:
        Unsealed: the bytes end early, or were changed.
    """
    body, _, rest = data.partition(b"\n")
    if not rest.endswith(b"\n"):
        raise Unsealed("it ends early")
    if rest[:-1] != _checksum(body):
        raise Unsealed("its checksum does not match")
    try:
        return json.loads(body)
    except ValueError as error:
        raise Unsealed(f"it cannot be understood: {error!r}") from error


def _checksum(body: bytes) -> bytes:
    return b"blake2b:" + hashlib.blake2b(body, digest_size=16).hexdigest().encode("ascii")
