"""The committed ``.memu-fs.toml``: format version, store id, secret-allow rules. Nothing else is ever read from it."""

from __future__ import annotations

import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from memu_fs.digests import UNMARKED_STORE
from memu_fs.errors import MemuError

MARKER = ".memu-fs.toml"
FORMAT = 1
MAX_BYTES = 256 * 1024


class MarkerError(MemuError):
    """The marker cannot be understood."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}. Restore it from git, or correct it by hand.")


class NewerFormatError(MemuError):
    """The store was made by a newer memu-fs."""

    def __init__(self, path: Path, found: int) -> None:
        super().__init__(
            f"{path} has format {found}, this memu-fs knows up to {FORMAT}. Upgrade: pip install -U memu-fs"
        )


@dataclass(frozen=True, slots=True)
class Marker:
    """What the store says of itself."""

    id: UUID = UNMARKED_STORE
    format: int = FORMAT
    allowed_secrets: tuple[str, ...] = ()  #: regular expressions, or ``sha256:...`` of a text that is no secret

    def as_toml(self) -> str:
        """Give the text of a new marker."""
        return f'format = {self.format}\nid = "{self.id}"\n'


def read_marker(root: Path) -> Marker:
    """Read a store's marker; a folder without one is a store with the unmarked id.

    Raises:
        MarkerError: when it is not valid.
        NewerFormatError: when its format is newer than this program knows.
    """
    path = root / MARKER
    try:
        data = _read_regular(path)
        loaded = tomllib.loads(data.decode()) if data is not None else None
    except OSError as error:
        raise MarkerError(path, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise MarkerError(path, str(error)) from None
    if loaded is None:
        return Marker()
    version = loaded.get("format", FORMAT)
    if type(version) is not int or version < 1:
        raise MarkerError(path, "format must be a whole number")
    if version > FORMAT:
        raise NewerFormatError(path, version)
    secrets = loaded.get("secrets", {})
    allowed = secrets.get("allow", []) if isinstance(secrets, dict) else None
    if not isinstance(allowed, list) or not all(isinstance(item, str) for item in allowed):
        raise MarkerError(path, "[secrets] allow must be a list of texts")
    try:
        store_id = UUID(str(loaded["id"])) if "id" in loaded else UNMARKED_STORE
    except ValueError:
        raise MarkerError(path, "id is not a UUID") from None
    return Marker(store_id, version, tuple(allowed))


def _read_regular(path: Path) -> bytes | None:
    """Read the marker, ``None`` where there is none. It comes with a clone: no link, pipe or device is followed."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES // 1024} KB")
    return path.read_bytes()
