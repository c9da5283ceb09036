"""Who calls a command, and from where: this process, or a client of the daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from memu_fs.errors import UsageError

if TYPE_CHECKING:
    from memu_fs.config import Config
    from memu_fs.local import LocalMemory
    from memu_fs.store import Store


@dataclass(frozen=True, slots=True)
class Invocation:
    """The circumstances of one command."""

    cwd: Path
    environment: Mapping[str, str]
    is_served: bool = False  #: by a daemon
    stdin: str | None = None  #: what was read already, when the caller's own input is out of reach
    deadline: float | None = None  #: of ``os.times().elapsed``; the caller has gone after it
    #: gives an open memory for stores and settings, or ``None`` to open one
    warm: Callable[[Sequence[Store], Config], LocalMemory | None] = field(default=lambda _stores, _config: None)


class NowhereError(UsageError):
    """The working directory is gone."""

    def __init__(self) -> None:
        super().__init__("The current folder is gone; go to another one first.")


_CURRENT: ContextVar[Invocation | None] = ContextVar("invocation", default=None)


def current() -> Invocation:
    """Give the circumstances of the command that runs now.

    Raises:
        NowhereError: when the working directory has been deleted.
    """
    try:
        return _CURRENT.get() or Invocation(Path.cwd(), os.environ)
    except FileNotFoundError:
        raise NowhereError from None


def enter(invocation: Invocation) -> None:
    """Set the circumstances for the rest of this context."""
    _CURRENT.set(invocation)


def open_memory(stores: Sequence[Store], config: Config) -> LocalMemory:
    """Give the memory over some stores: the warm one where there is one, else a new one."""
    from memu_fs.local import LocalMemory

    return current().warm(stores, config) or LocalMemory(stores, config)
