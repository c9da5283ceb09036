"""What a hook does where no daemon answers: start one for next time, say nothing, never fail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

from memu_fs.config import Config, load_config
from memu_fs.errors import MemuError
from memu_fs.hooking import Hooked, accepted_store, give_pinned, log_hook
from memu_fs.hooks import HookEvent, HookInput, read_hook
from memu_fs.launch import start_for_next_time
from memu_fs.locate import derive_scope
from memu_fs.store import Store, make_private


def without_daemon(host: str, named: Sequence[str], event: str | None, data: bytes, reason: str) -> str:
    """Start the daemon and give what a hook can say without it: pinned files at the start of a session, else ""."""
    started = time.monotonic()
    known: HookEvent | None = next((name for name in get_args(HookEvent) if name == event), None)
    try:
        config = load_config()
        store = accepted_store(config, [Path(name) for name in named])
    except (MemuError, OSError):
        return ""
    if store is None:
        return ""
    if reason == "no-daemon" and start_for_next_time(store, config):
        reason = "daemon-started"
    at = known or "prompt"
    try:
        told = read_hook(host, data, known)
        at = told.event
        left = config.number("hook_seconds") - (time.monotonic() - started)
        hooked = Hooked("", reason) if at == "prompt" else _pinned(store, config, host, told, left)
    except MemuError:
        hooked = Hooked("", "bad-input")
    except OSError:
        hooked = Hooked("", "unreadable")
    with suppress(MemuError, OSError):  # the log is lost where nothing can be written
        make_private(store.root)
    log_hook(store, at, hooked, (time.monotonic() - started) * 1000)
    return hooked.text


def _pinned(store: Store, config: Config, host: str, told: HookInput, seconds: float) -> Hooked:
    scope = derive_scope(config, store, told.cwd, host)
    return give_pinned(store, config, scope, host, told, max(seconds, 0.05))
