"""Digests and ids: the same on every device, whatever the time and the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import NAMESPACE_URL, UUID, uuid5

#: The id of a folder that has no ``.memu-fs.toml``.
UNMARKED_STORE = uuid5(NAMESPACE_URL, "memu-fs:unmarked-store")


def digest_bytes(data: bytes) -> str:
    """Give the sha256 of raw bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_parts(parts: Iterable[tuple[str, str]]) -> str:
    """Give one digest for several (path, digest) pairs, in order."""
    return digest_bytes("".join(f"{path}\0{digest}\n" for path, digest in parts).encode())


def file_id(store_id: UUID, track: str, name: str) -> str:
    """Give the id of a recall file."""
    return str(uuid5(store_id, f"{track}/{name}"))


def segment_id(of_file: str, text: str, occurrence: int) -> str:
    """Give the id of a segment: ``occurrence`` counts equal texts in one file, from 0."""
    return str(uuid5(UUID(of_file), f"{occurrence}\0{text}"))
