"""What a hook does where no daemon answers: start one for next time, say nothing, never fail."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from memu_fs import launch
from memu_fs.config import Config, load_config
from memu_fs.errors import MemuError
from memu_fs.event_log import record
from memu_fs.hooking import accepted_store, pinned_answer, pinned_files
from memu_fs.hooks import HookInput, read_hook
from memu_fs.locate import derive_scope
from memu_fs.store import Store


def without_daemon(host: str, named: Sequence[str], event: str | None, data: bytes, reason: str) -> str:
    """Start the daemon and give what a hook can say without it: pinned files at the start of a session, else ""."""
    started = time.monotonic()
    try:
        config = load_config()
        store = accepted_store(config, [Path(name) for name in named])
        if store is None:
            return ""
        launch.note_configured(config)
        if reason == "no-daemon" and config.text("daemon") == "auto":
            launch.start(store.root)
            reason = "daemon-started"
        told = read_hook(host, data)
        text = ""
        if (event or told.event) == "session-start":
            left = config.number("hook_seconds") - (time.monotonic() - started)
            text = _pinned(store, config, host, told, left)
        spent = (time.monotonic() - started) * 1000
        record(store.private, "hook", ms=spent, event=told.event, silent=not text, reason=None if text else reason)
        return text
    except (MemuError, OSError) as error:
        print(f"memu-fs: {error}", file=sys.stderr)
        return ""


def _pinned(store: Store, config: Config, host: str, told: HookInput, seconds: float) -> str:
    scope = derive_scope(config, store, told.cwd, host)
    return pinned_answer(store, host, pinned_files(store, scope, max(seconds, 0.05))).text
