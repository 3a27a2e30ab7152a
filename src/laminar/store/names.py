"""Folder names for relations: readable, safe on every file system, and never shared."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

_UNSAFE = re.compile(r"[^a-z0-9]+")
_READABLE = 40


@lru_cache(maxsize=4096)  # asked for with every file that is written, of few relations
def folder_name(relation: str) -> str:
    """Return a folder name for any name at all; different names get different folders."""
    # The hash tells names apart that look alike once folded; the rest is for people's eyes.
    readable = _UNSAFE.sub("_", relation.lower()).strip("_")[:_READABLE]
    digest = hashlib.blake2b(relation.encode("utf-8", "surrogatepass"), digest_size=8)
    return f"{readable or 'r'}-{digest.hexdigest()}"
