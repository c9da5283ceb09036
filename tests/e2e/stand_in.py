"""A stand-in for a model's server on loopback: it answers every turn with one sentence and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_USAGE = {"input_tokens": 1, "output_tokens": 1}
_SENTENCE = {"type": "text", "text": "Understood."}


class StandIn(ThreadingHTTPServer):
    """Speaks Anthropic's Messages, streamed or whole."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Turn)
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def texts(self) -> str:
        """Give everything that was sent so far, as one text."""
        return json.dumps(self.requests, ensure_ascii=False)


@contextmanager
def running() -> Iterator[StandIn]:
    """Serve while the block runs."""
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Turn(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self._send("application/json", json.dumps(_USAGE))
        self.server.requests.append(body)
        if body.get("stream"):
            return self._send("text/event-stream", "".join(map(_as_event, _turn())))
        return self._send(
            "application/json", json.dumps(_message() | {"content": [_SENTENCE], "stop_reason": "end_turn"})
        )

    def do_GET(self) -> None:
        self._send("application/json", "{}")

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _message() -> dict[str, Any]:
    return {
        "id": "turn",
        "type": "message",
        "role": "assistant",
        "model": "stand-in",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _turn() -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _message()}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "text_delta", "text": _SENTENCE["text"]}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": _USAGE}
    yield {"type": "message_stop"}


def _as_event(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
