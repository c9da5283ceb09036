"""Who sees a recall file. Scope is where the file lies; nothing inside the file can change it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memu_fs.errors import UsageError
from memu_fs.names import decode_part

SHARED = ""


class BadScopeError(UsageError):
    """A scope that means nothing."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text!r} is no scope: use all, shared, project:NAME or agent:NAME (project and agent may be combined)."
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """What a reader may see: the shared files, those of its project, those of its agent."""

    project: str | None = None  #: such as ``github.com/acme/api``
    agent: str | None = None
    everything: bool = False

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Scope:
        """Read ``all``, ``shared``, ``project:NAME``, ``agent:NAME``, alone or several of them.

        Raises:
            BadScopeError: for anything else.
        """
        found: dict[str, str] = {}
        everything = False
        for text in texts:
            kind, separator, name = text.partition(":")
            if text == "all":
                everything = True
            elif separator and kind in {"project", "agent"} and name.strip("/") and kind not in found:
                found[kind] = unicodedata.normalize("NFC", name.strip("/"))
            elif text != "shared":
                raise BadScopeError(text)
        return cls(found.get("project"), found.get("agent"), everything)

    def sees(self, file_scope: str) -> bool:
        """Say whether a file of this scope is visible."""
        if self.everything or file_scope == SHARED:
            return True
        kind, _, owner = file_scope.partition("/")
        mine = self.project if kind == "projects" else self.agent
        return mine is not None and (owner == mine or owner.startswith(mine + "/"))

    def visible(self, scopes: Iterable[str]) -> tuple[str, ...] | None:
        """Narrow the scopes that exist to those it sees; ``None`` when it sees all."""
        return None if self.everything else tuple(scope for scope in scopes if self.sees(scope))


EVERYTHING = Scope(everything=True)


def scope_of(path: str) -> str:
    """Give the scope value of a path of the store: "" for shared, else ``projects/...`` or ``agents/...``.

    For a project it is the whole folder below ``projects/``: a project's own name has slashes, so only the
    reader knows where it ends. ``Projects/`` counts too: some systems cannot tell it from ``projects/``.
    """
    parts = path.split("/")[1:-1]
    if len(parts) < 2 or parts[0].lower() not in {"projects", "agents"}:
        return SHARED
    parts[0] = parts[0].lower()
    depth = len(parts) if parts[0] == "projects" else 2
    return "/".join(unicodedata.normalize("NFC", decode_part(part)) for part in parts[:depth])
