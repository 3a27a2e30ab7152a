"""What only its owner should know, in options and in texts.

Three ways lead to it: an option has the name of one, or its connector says that it is one; a value
holds one, such as `://user:secret@`; or a value was looked up elsewhere, where `${env:NAME}` said
to. What was looked up is shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from traceback import format_exception
from typing import Any

HIDDEN = "***"

_KEYS = r"(?:api|access|private|account|shared|sas|encryption|signing|ssl|keystore|storage).?key"
_NAME = (
    r"(?:passw(?:or)?d|passwort|pwd|passphrase|secret|token|credential|jaas|(?<![a-z])dsn"
    r"|(?<![a-z])pass(?![a-z])|(?<![a-z])sas(?![a-z])|connection.?string|authorization"
    rf"|auth\.user\.info|{_KEYS}(?![a-z]))"
)
_SECRET = re.compile(_NAME, re.IGNORECASE)
_QUOTED = r"""'(?:[^']|'')*'?|"[^"]*"?"""
_GIVEN = re.compile(rf"""(['"`]?([\w.\-]+)['"`]?\s*=\s*)({_QUOTED}|[^\s,)]+)""")
_USER = re.compile(r"""(://[^\s/:@'"]*:)[^\s'"]*@""")
_PAIR = re.compile(
    rf"""([\w.\-]*{_NAME}[\w.\-]*["']?\s*[=:]\s*)({_QUOTED}|[^\s;&]+)""",
    re.IGNORECASE,
)
_OPTIONS = re.compile(r"\bWITH\s*\(", re.IGNORECASE)

_declared: frozenset[str] = frozenset()
_looked_up: dict[str, str] = {}
"""Value -> how it was written, the newest last."""

_REMEMBERED = 1024
_SHORTEST, _SHORTEST_PLAIN = 4, 8
"""A shorter value, of a secret or of another option, is part of too many words to be told from
them: `true`, a number of rows."""


def declare(names: Iterable[str]) -> None:
    """Take names of options for those of secrets, in any case; connectors say which they have."""
    global _declared
    _declared |= {name.casefold() for name in names}


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret."""
    return name.casefold() in _declared or _SECRET.search(name) is not None


def shown(value: str) -> str:
    """Return a value without the secrets inside: of a URL, or of pairs such as `password=x;`."""
    return _PAIR.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", value))


def look_up(option: str, value: str, written: str) -> str:
    """Remember how the value of an option was written; return it."""
    global _looked_up
    if len(value) >= (_SHORTEST if is_secret(option) else _SHORTEST_PLAIN):
        kept = [each for each in _looked_up.items() if each[0] != value]
        _looked_up = dict([*kept, (value, written)][-_REMEMBERED:])
    return value


def told(text: str) -> str:
    """Return what an error says as everybody may read it."""
    for value in sorted(_looked_up, key=len, reverse=True):
        text = text.replace(value, _looked_up[value])
    return _USER.sub(rf"\1{HIDDEN}@", text)


def scrub(error: BaseException) -> BaseException:
    """Take what was looked up out of an error and of all that is behind it; return it.

    Somebody else's code makes errors of what it was given, and a traceback shows each of a chain.
    They are changed where they are, for whoever catches one asks for its class; one that does not
    let itself be changed is replaced.
    """
    seen: set[int] = set()
    stack = [error]
    while stack:
        each = stack.pop()
        seen.add(id(each))
        for name in ("__cause__", "__context__"):
            behind = getattr(each, name)
            if behind is not None and id(behind) not in seen:
                stack.append(behind)
                if (clean := _scrubbed(behind)) is not behind:
                    setattr(each, name, clean)
    return _scrubbed(error)


def _scrubbed(error: BaseException) -> BaseException:
    if not _looked_up or not _tells(error):
        return error
    error.args = tuple(_told_part(each) for each in error.args)
    error.__dict__.update({name: _told_part(each) for name, each in vars(error).items()})
    for name in ("strerror", "filename", "filename2"):
        if isinstance(getattr(error, name, None), str):
            setattr(error, name, _told_part(getattr(error, name)))
    if not _tells(error):
        return error
    return RuntimeError(f"{type(error).__name__}: {told(_text(error))}")


def _told_part(part: Any) -> Any:
    if isinstance(part, str):
        return told(part)
    return [_told_part(each) for each in part] if type(part) is list else part


def _tells(error: BaseException) -> bool:
    text = "\n".join([_text(error), *map(repr, error.args), *getattr(error, "__notes__", ())])
    return any(value in text for value in _looked_up)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of a Java that is gone
        return ""


def traceback_of(error: BaseException) -> str:
    """Return where an error arose, with all that is behind it, as everybody may read it."""
    return told("".join(format_exception(error))).rstrip()


def without_secrets(text: str, start: int, end: int) -> str:
    """Return a part of a script, which need not be valid, without the values of secret options.

    Options stand behind WITH; before it `token = 'x'` is a condition like any other. Where they
    end is not asked: in a text that may be broken it is better to hide too much.
    """
    found = _OPTIONS.search(text, 0, end)
    if found is None:
        return text[start:end]
    plain = max(start, found.end())
    return text[start:plain] + _GIVEN.sub(_shown_option, text[plain:end])


def _shown_option(found: re.Match[str]) -> str:
    return found[1] + (f"'{HIDDEN}'" if is_secret(found[2]) else shown(found[3]))
