"""Embeds many texts: a local model does it in a process of its own, whose memory is gone when it ends."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from queue import SimpleQueue
from threading import Thread
from typing import IO

import numpy as np

from memu_fs.errors import MemuError
from memu_fs.index.base import Vector
from memu_fs.index.embedder import Embedder, EmbedderError, EmbedderSettings, is_local, make_embedder

_FEW = 64  # texts that are embedded about as fast as a child starts
_FRAME = 32  # texts in one message: enough to keep all cores busy, few enough to show progress
_LENGTH = struct.Struct("<I")
_SHAPE = struct.Struct("<II")


class LostProcessError(EmbedderError):
    """The child ended before its work was done."""

    def __init__(self, code: int) -> None:
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        hint = "; the machine may be short of memory" if code == -getattr(signal, "SIGKILL", 9) else ""
        super().__init__(f"The embedding process ended early ({reason}{hint}). Run the command again.")


def embed_bulk(
    settings: EmbedderSettings, texts: Sequence[str], embedder: Embedder | None = None
) -> Iterator[tuple[list[int], Vector]]:
    """Yield positions in ``texts`` and their vectors, as they come.

    A few texts, and those for a server, are embedded here, by ``embedder`` if it is given.
    """
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    if is_local(settings) and len(texts) > _FEW:
        yield from _embed_outside(settings, texts, _cut(order, _FRAME))
        return
    step = _FRAME if is_local(settings) else max(1, settings.batch)
    embedder = embedder or make_embedder(settings)
    for places in _cut(order, step):
        yield places, embedder.embed_documents([texts[place] for place in places])


def _cut(order: list[int], step: int) -> list[list[int]]:
    return [order[start : start + step] for start in range(0, len(order), step)]


def _embed_outside(
    settings: EmbedderSettings, texts: Sequence[str], frames: list[list[int]]
) -> Iterator[tuple[list[int], Vector]]:
    child = _start()
    try:
        _send(child, asdict(replace(settings, key=None)))
        _send(child, [texts[place] for place in frames[0]])
        for places, ahead in zip(frames, [*frames[1:], []], strict=True):
            if ahead:  # the child has work while the caller is busy with what it gave
                _send(child, [texts[place] for place in ahead])
            yield places, _receive(child)
    finally:
        child.kill()
        child.communicate()


def _start() -> subprocess.Popen[bytes]:
    # -P: a folder that the command happens to be run in never supplies code.
    command = [sys.executable, "-P", "-m", "memu_fs.index.bulk"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def _send(child: subprocess.Popen[bytes], message: object) -> None:
    assert child.stdin is not None
    with suppress(OSError):  # a child that has ended is reported when its answer is read
        _write(child.stdin, json.dumps(message).encode())


def _receive(child: subprocess.Popen[bytes]) -> Vector:
    assert child.stdout is not None
    answer = _read(child.stdout)
    if answer is None:
        raise LostProcessError(child.wait())
    if answer[:1] == b"E":
        raise EmbedderError(answer[1:].decode())
    rows, dimension = _SHAPE.unpack_from(answer, 1)
    numbers = np.frombuffer(answer, dtype="<f4", offset=1 + _SHAPE.size)
    return numbers.astype(np.float32).reshape(rows, dimension)


def _write(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """Read one whole message; ``None`` when the other side is gone."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = pipe.read(length)
    return message if len(message) == length else None


def main() -> None:
    """Be the child: settings first, then lists of texts, each answered with vectors."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the vectors
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(requests,), daemon=True).start()
    try:
        embedder = make_embedder(EmbedderSettings(**json.loads(requests.get())))
        while True:
            vectors = embedder.embed_documents(json.loads(requests.get()))
            _write(answers, b"V" + _SHAPE.pack(*vectors.shape) + vectors.astype("<f4").tobytes())
    except MemuError as error:
        _write(answers, b"E" + str(error).encode())
        os._exit(1)


def _listen(requests: SimpleQueue[bytes]) -> None:
    """Take in messages at once, so that neither side waits for the other to read; end with the parent."""
    with os.fdopen(0, "rb", closefd=False) as pipe:
        while (message := _read(pipe)) is not None:
            requests.put(message)
    os._exit(0)


if __name__ == "__main__":
    main()
