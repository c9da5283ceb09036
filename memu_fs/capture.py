"""Run a command inside a long-lived process: its output is caught, whatever thread it runs in."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any, TextIO

from memu_fs.invocation import Invocation, enter


class _Streams(threading.local):
    out: TextIO | None = None
    err: TextIO | None = None


class _Split(io.TextIOBase):
    """A standard stream that goes to the command of this thread, else where it always went."""

    def __init__(self, name: str, streams: _Streams, usual: TextIO) -> None:
        self._name, self._streams, self._usual = name, streams, usual

    def _target(self) -> TextIO:
        target: TextIO | None = getattr(self._streams, self._name)
        return target or self._usual

    def write(self, text: str) -> int:
        return self._target().write(text)

    def flush(self) -> None:
        self._target().flush()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


_STREAMS = _Streams()


def install() -> None:
    """Put the splitting streams in the place of the standard ones, once for a process."""
    if not isinstance(sys.stdout, _Split):
        sys.stdout = _Split("out", _STREAMS, sys.stdout)
        sys.stderr = _Split("err", _STREAMS, sys.stderr)


def run(argv: list[str], invocation: Invocation) -> dict[str, Any]:
    """Run one command under an invocation; give its exit code and what it wrote."""
    from memu_fs.cli.app import execute

    out, err = io.StringIO(), io.StringIO()
    _STREAMS.out, _STREAMS.err = out, err
    enter(invocation)
    try:
        code = execute(argv)
    finally:
        _STREAMS.out = _STREAMS.err = None
    return {"code": code, "stdout": _unicode(out.getvalue()), "stderr": _unicode(err.getvalue())}


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
