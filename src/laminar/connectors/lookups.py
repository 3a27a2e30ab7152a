"""Values that an option looks up elsewhere: `${env:NAME}` and `${file:/path}`.

They are looked up each time a connector reads the option, and what was found is stored nowhere. So
a password may change without a statement, and a state folder does not hold it. `$${` is a plain
`${`; anything else in `${...}` is refused, for a mistyped one would become a password of its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from laminar.errors.connectors import BadReference, ReferenceNotFound
from laminar.errors.secrets import look_up

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
_MOST = 64 * 1024
"""A file longer than that holds no secret."""


def resolved(connector: str, option: str, text: str) -> str:
    """Return the value of an option with all that it refers to.

    Raises:
        BadReference: it refers to something in a way that is not known.
        ReferenceNotFound: there is no such variable, or no such file.
    """

    def found(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        kind, colon, name = match[1].partition(":")
        if not (colon and name and match[2] and kind in _KINDS):
            raise BadReference(connector, option, match[0])
        try:
            return look_up(option, _KINDS[kind](name), match[0])
        except LookupError as error:
            raise ReferenceNotFound(connector, option, match[0], str(error.args[0])) from None

    return _REFERENCE.sub(found, text) if "${" in text else text


def _variable(name: str) -> str:
    if name not in os.environ:
        raise LookupError("the environment of this process has no variable of that name")
    return os.environ[name]


def _file(name: str) -> str:
    path = Path(name)
    if not path.is_absolute():
        raise LookupError("write the whole path: where a process runs is not part of a database")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise LookupError("it is no file: nobody knows when a pipe or a device ends")
    try:
        with path.open("rb") as file:
            data = file.read(_MOST + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise LookupError(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise LookupError("the file is not text in UTF-8") from None
    if len(data) > _MOST:
        raise LookupError(f"the file is longer than {_MOST} bytes")
    # Editors and `echo` end a file with a line break that is no part of a password.
    return text.removesuffix("\n").removesuffix("\r")


_KINDS = {"env": _variable, "file": _file}
