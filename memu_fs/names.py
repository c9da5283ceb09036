"""The one reversible mapping between a name, such as ``ops/a:b``, and a path, such as ``memory/ops/a%3Ab.md``."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

from memu_fs.errors import UsageError

#: Track to the folder that holds it.
TRACKS = {"memory": "memory", "skill": "skill", "workspace": "resource"}
FOLDERS = {folder: track for track, folder in TRACKS.items()}
SKILL_FILE = "SKILL.md"
MAX_PART_BYTES = 200

_REFUSED = re.compile(r'[<>:"|?*\\\x00-\x1f\x7f-\x9f]|%(?=[0-9A-F]{2})|^\.|[. ]$')
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODED = re.compile(r"(?:%[0-9A-F]{2})+")
_CONFLICT_COPY = re.compile(r"^(?P<original>.+)\.conflict-[0-9a-f]{4,64}$")


class BadNameError(UsageError):
    """A name that cannot become a path inside the store."""

    def __init__(self, name: str, reason: str) -> None:
        shown = name if len(name) <= 100 else f"{name[:100]}..."
        super().__init__(f"The name {shown!r} cannot be used: {reason}.")


def split_reference(reference: str) -> tuple[str, str]:
    """Split ``track/name`` (or a path such as ``resource/x.md``) into track and name.

    Raises:
        BadNameError: when the first part is no track.
    """
    head, _, name = unicodedata.normalize("NFC", reference).strip("/").partition("/")
    track = FOLDERS.get(head, head)
    if track not in TRACKS or not name:
        raise BadNameError(reference, "write it as memory/NAME, skill/NAME or resource/NAME")
    return track, name


def path_for(track: str, name: str) -> str:
    """Give the path of (track, name) from the store's root. A skill gets its single-file form.

    Raises:
        BadNameError: for empty parts, ``.``, ``..``, absolute names, parts over 200 bytes, lone surrogates.
    """
    if track not in TRACKS:
        raise BadNameError(f"{track}/{name}", f"there is no track {track!r}; use memory, skill or workspace")
    parts = _checked_parts(name)
    encoded = [_encode_part(part) for part in parts]
    if track == "skill" and len(parts) > 1 and parts[-1].lower() == "skill":
        encoded[-1] = _encode_first(encoded[-1])
    for part, text in zip(parts, encoded, strict=True):
        if len(text.encode()) > MAX_PART_BYTES:
            raise BadNameError(name, f"the part {part[:20]!r}... is longer than {MAX_PART_BYTES} bytes")
    return "/".join([TRACKS[track], *encoded]) + ".md"


def identity_of(path: str) -> tuple[str, str]:
    """Give the (track, name) of a path of the store: the inverse of ``path_for``.

    ``skill/<n>/SKILL.md`` is ``<n>``. The path must lie in a track's folder and end with ``.md``.
    """
    folder, _, rest = path.partition("/")
    track = FOLDERS[folder]
    if track == "skill" and rest.endswith("/" + SKILL_FILE):
        rest = rest.removesuffix("/" + SKILL_FILE)
    else:
        rest = rest.removesuffix(".md")
    return track, "/".join(decode_part(part) for part in rest.split("/"))


def conflict_original(name: str) -> str | None:
    """Give the name of the file that a name such as ``a.conflict-0f3c`` is a kept copy of."""
    match = _CONFLICT_COPY.match(name)
    return match["original"] if match else None


def collision_key(track: str, name: str) -> tuple[str, str]:
    """Give what two names share when some system could not keep their files apart."""
    return track, unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def encode_name(name: str) -> str:
    """Encode a name as a relative path without an ending, such as a project's folder."""
    return "/".join(_encode_part(part) for part in _checked_parts(name))


def decode_part(part: str) -> str:
    """Undo the percent-encoding of one part and give it in NFC.

    A part that the mapping would not have written so, such as ``a%2Fb`` or ``%2E%2E``, is a name as it stands.
    """
    part = unicodedata.normalize("NFC", part)

    def decoded(match: re.Match[str]) -> str:
        try:
            return unquote_to_bytes(match[0]).decode()
        except UnicodeDecodeError:
            return match[0]

    name = unicodedata.normalize("NFC", _ENCODED.sub(decoded, part))
    if name in {".", ".."} or _SURROGATE.search(name):
        return part
    encoded = _encode_part(name)
    is_skill = name.lower() == "skill" and part == _encode_first(encoded)
    return name if part == encoded or is_skill else part


def _checked_parts(name: str) -> list[str]:
    if _SURROGATE.search(name):
        raise BadNameError(name, "it is not valid Unicode")
    name = unicodedata.normalize("NFC", name)
    if name.startswith("/"):
        raise BadNameError(name, "it is absolute; names start below the track's folder")
    parts = name.split("/")
    for part in parts:
        if not part:
            raise BadNameError(name, "it has an empty part")
        if part in {".", ".."}:
            raise BadNameError(name, f"the part {part!r} would leave its folder")
    return parts


def _encode_part(part: str) -> str:
    encoded = _REFUSED.sub(_percent, part)
    if unicodedata.normalize("NFC", encoded) != encoded:
        # An accent after an encoded character would join its last hexadecimal digit.
        encoded = _NOT_ASCII.sub(_percent, encoded)
    return _encode_first(encoded) if _RESERVED.match(encoded) else encoded


def _encode_first(part: str) -> str:
    return f"%{ord(part[0]):02X}{part[1:]}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
