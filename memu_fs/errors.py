"""The one base error. A MemuError is something a user can cause, so it never shows a traceback."""

from __future__ import annotations


class MemuError(Exception):
    """Something failed; the message is one sentence that says what to do."""

    exit_code = 1


class UsageError(MemuError):
    """The command was called in a way that cannot work."""

    exit_code = 2
