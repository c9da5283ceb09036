"""Embedding over HTTP, against a real server on loopback that can also misbehave."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest

from memu_fs.errors import UsageError
from memu_fs.index import endpoint
from memu_fs.index.embedder import Embedder, EmbedderError, EmbedderSettings, make_embedder

KEY = "k-" + "never-shown" * 2
Body = dict[str, Any]


@dataclass
class Answer:
    """What the server says next."""

    content: bytes | Callable[[Body], bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0  #: before each of ten parts


def embed(body: Body) -> bytes:
    """Give vectors that tell the texts' lengths, last text first."""
    rows = [{"index": i, "embedding": [len(text), 1, 0]} for i, text in enumerate(body["input"])]
    return json.dumps({"data": rows[::-1]}).encode()


class Server(ThreadingHTTPServer):
    """Answers from a list, then properly; keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.answers: list[Answer] = []
        self.bodies: list[Body] = []
        self.seen: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.seen.append((self.path, dict(self.headers)))
        answer = self.server.answers.pop(0) if self.server.answers else Answer(embed)
        content = answer.content(body) if callable(answer.content) else answer.content
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self._send(content, answer.pause)

    def _send(self, content: bytes, pause: float) -> None:
        step = len(content) // 10 + 1
        for start in range(0, len(content), step):
            time.sleep(pause)
            try:
                self.wfile.write(content[start : start + step])
            except OSError:
                return

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_LONGEST_PAUSE", 0.05)


def ask(server: Server, embedder: str = "vllm:tiny", **settings: Any) -> Embedder:
    settings = {"url": server.url, "key": KEY, **settings}
    return make_embedder(EmbedderSettings(embedder, **settings), {})


def fails(embedder: Embedder) -> str:
    """Give the one sentence that a failure is."""
    with pytest.raises(EmbedderError) as failure:
        embedder.embed_documents(["a text"])
    sentence = str(failure.value)
    assert KEY[:12] not in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400
    return sentence


def test_texts_go_out_in_batches_and_vectors_come_back_in_order(server: Server) -> None:
    rows = ask(server, batch=2).embed_documents(["a", "bb", "ccc", "dddd", "eeeee"])
    assert [body["input"] for body in server.bodies] == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]
    assert np.allclose(rows[:, 0] / rows[:, 1], [1, 2, 3, 4, 5])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert rows.dtype == np.float32
    path, headers = server.seen[0]
    assert (path, headers["Authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")


def test_an_address_may_end_in_a_slash_or_in_embeddings(server: Server) -> None:
    for end in ("/", "/embeddings", "/embeddings/"):
        ask(server, url=server.url + end).embed_query("a")
    assert {path for path, _ in server.seen} == {"/v1/embeddings"}


def test_a_server_that_numbers_nothing_answers_in_order(server: Server) -> None:
    server.answers = [Answer(b'{"data": [{"embedding": [1, 0]}, {"embedding": [0, 1]}]}')]
    assert (ask(server).embed_documents(["a", "b"]) == np.eye(2)).all()


def test_empty_texts_and_halves_of_surrogates_are_replaced(server: Server) -> None:
    ask(server).embed_documents(["", " \n", "a\ud800"])
    assert server.bodies[0]["input"] == ["-", "-", "a?"]
    assert ask(server, dimension=3).embed_documents([]).shape == (0, 3)


@pytest.mark.parametrize(
    ("embedder", "document", "query"),
    [
        ("jina", {"task": "retrieval.passage"}, {"task": "retrieval.query"}),
        ("jina:jina-embeddings-v2-base-en", {}, {}),
        ("voyage", {"input_type": "document"}, {"input_type": "query"}),
        ("openai", {}, {}),
    ],
)
def test_providers_are_told_documents_from_queries(server: Server, embedder: str, document: Body, query: Body) -> None:
    size = 768 if "v2" in embedder else 1536 if embedder == "openai" else 1024
    row = json.dumps({"data": [{"index": 0, "embedding": [1.0] * size}]}).encode()
    server.answers = [Answer(row), Answer(row)]
    asked = ask(server, embedder)
    asked.embed_documents(["d"])
    asked.embed_query("q")
    model = asked.space.split(":")[1]
    assert server.bodies == [
        {"model": model, "input": ["d"], **document},
        {"model": model, "input": ["q"], **query},
    ]


def test_models_trained_on_prefixes_get_them(server: Server) -> None:
    asked = ask(server, "ollama:nomic-embed-text:v1.5")
    asked.embed_documents(["d"])
    asked.embed_query("q")
    assert [body["input"] for body in server.bodies] == [["search_document: d"], ["search_query: q"]]


def test_another_dimension_is_asked_for_by_the_providers_name(server: Server) -> None:
    ask(server, "voyage", dimension=3).embed_query("q")
    ask(server, "openai", dimension=3).embed_query("q")
    assert (server.bodies[0]["output_dimension"], server.bodies[1]["dimensions"]) == (3, 3)


def test_an_unknown_dimension_is_asked_once(server: Server) -> None:
    asked = ask(server)
    assert (asked.dimension, asked.space, asked.space) == (3, "vllm:tiny:3", "vllm:tiny:3")
    assert len(server.bodies) == 1


def test_the_space_says_nothing_of_where_the_server_stands(server: Server) -> None:
    here = ask(server, dimension=3).space
    there = make_embedder(EmbedderSettings("vllm:tiny", url="https://10.1.2.3/v1", dimension=3), {}).space
    assert here == there == "vllm:tiny:3"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_that_passes_is_tried_again(server: Server, status: int) -> None:
    server.answers = [Answer(b"busy", status), Answer(b"busy", status)]
    assert ask(server).embed_documents(["a"]).shape == (1, 3)
    assert len(server.bodies) == 3


def test_retry_after_is_honoured(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_LONGEST_PAUSE", 10)
    server.answers = [Answer(b"", 429, {"Retry-After": "1"})]
    start = time.monotonic()
    ask(server).embed_query("a")
    assert 1 <= time.monotonic() - start < 9


def test_a_server_may_not_ask_for_any_pause(server: Server) -> None:
    server.answers = [Answer(b"", 429, {"Retry-After": "86400"}), Answer(b"", 503, {"Retry-After": "nan"})]
    start = time.monotonic()
    ask(server).embed_documents(["a"])
    assert time.monotonic() - start < 10


def test_tries_are_bounded_and_a_query_is_tried_twice(server: Server) -> None:
    server.answers = [Answer(b"", 500)] * 10
    assert "answered 500. Try again later" in fails(ask(server))
    assert len(server.bodies) == 4
    with pytest.raises(EmbedderError):
        ask(server).embed_query("q")
    assert len(server.bodies) == 6


def test_a_refused_key_says_where_to_set_it_and_does_not_show_it(server: Server) -> None:
    server.answers = [Answer(json.dumps({"error": {"message": f"bad key {KEY}"}}).encode(), 401)]
    assert "refused the key (401). Set the right key in MEMU_FS_EMBEDDER_KEY" in fails(ask(server))
    assert len(server.bodies) == 1


def test_a_server_that_repeats_the_key_is_not_quoted(server: Server) -> None:
    server.answers = [Answer(json.dumps({"error": f"what is {KEY}?"}).encode(), 400)]
    assert "answered 400. Check its address" in fails(ask(server))


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"message": "no model\n\x1b[31m tiny"}},
        {"detail": "no model tiny"},
        {"message": "no model tiny"},
    ],
)
def test_a_missing_model_is_named_in_the_servers_words(server: Server, said: Body) -> None:
    server.answers = [Answer(json.dumps(said).encode(), 404)]
    sentence = fails(ask(server))
    assert "answered 404: no model" in sentence
    assert "has the model tiny" in sentence
    assert "\x1b" not in sentence


def test_a_redirect_is_not_followed(server: Server) -> None:
    server.answers = [Answer(b"", 302, {"Location": "http://127.0.0.1:9/"})]
    assert "answered 302. Check its address" in fails(ask(server))


def row(*numbers: object, index: object = 0) -> bytes:
    return json.dumps({"data": [{"index": index, "embedding": list(numbers)}]}).encode()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"<html>sign in</html>", "it is not JSON"),
        (b"\xff\xfe\x00", "it is not JSON"),
        (b'{"data": [{"index": 0, "embe', "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "no list of embeddings"),
        (b'{"data": [[1, 2, 3]]}', "no list of embeddings"),
        (b'{"data": []}', "0 vectors for 1 texts"),
        (json.dumps({"data": [{"embedding": [1, 2, 3]}] * 2}).encode(), "2 vectors for 1 texts"),
        (row(1, 0, 0, index=1), "indexes do not match"),
        (row(1, 0, 0, index="0"), "indexes do not match"),
        (row(1, 0), "vectors of 2 numbers where 3 were expected"),
        (row(1, float("nan"), 0), "not finite"),
        (row(1, float("inf"), 0), "not finite"),
        (row("1", "2", "3"), "not a list of numbers"),
        (row([1], [2, 3]), "not a list of numbers"),
        (row(), "not a list of numbers"),
        (b'{"data": [{"index": 0}]}', "not a list of numbers"),
        (b'{"data": [{"index": 0, "embedding": "AAAA"}]}', "not a list of numbers"),
        (row(0, 0, 0), "zero or not finite"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_clear_error(server: Server, content: bytes, fault: str) -> None:
    server.answers = [Answer(content)]
    assert fault in fails(ask(server, dimension=3))
    assert len(server.bodies) == 1


def test_vectors_of_different_lengths_are_refused(server: Server) -> None:
    server.answers = [Answer(b'{"data": [{"embedding": [1, 2]}, {"embedding": [1]}]}')]
    with pytest.raises(EmbedderError, match=r"different lengths: \[1, 2\]"):
        ask(server).embed_documents(["a", "b"])


@pytest.mark.parametrize("pause", [0.1, 1.0])
def test_a_slow_server_and_one_that_drips_are_given_up(server: Server, pause: float) -> None:
    server.answers = [Answer(embed, pause=pause)]
    start = time.monotonic()
    assert "did not answer within 0.3 s" in fails(ask(server, timeout=0.3))
    assert time.monotonic() - start < 5


def test_a_server_that_is_down_is_a_clear_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        assert "cannot be reached" in fails(make_embedder(EmbedderSettings("vllm:tiny", url=url, key=KEY), {}))


def test_a_server_that_hangs_up_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        embedder = make_embedder(EmbedderSettings("vllm:tiny", url=url, key=KEY), {})

        def hang_up() -> None:
            for _ in range(4):
                listening.accept()[0].close()

        thread = Thread(target=hang_up)
        thread.start()
        assert "cannot be reached" in fails(embedder)
        thread.join()


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70 + ".invalid", "no..where", "x y"])
def test_a_host_that_does_not_exist_is_a_clear_error(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    settings = EmbedderSettings("vllm:tiny", url=f"http://{host}/v1", timeout=20)
    with pytest.raises((EmbedderError, UsageError), match=r"cannot be reached|must look like"):
        make_embedder(settings, {}).embed_query("a")


def test_loopback_is_never_asked_through_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    ask(server).embed_query("a")
    ask(server, url=server.url.replace("127.0.0.1", "localhost")).embed_query("a")
    assert len(server.bodies) == 2


def test_other_servers_are_asked_through_the_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    ask(server, url="http://embeddings.invalid/v1").embed_query("a")
    assert server.seen[0][0] == "http://embeddings.invalid/v1/embeddings"


@pytest.mark.parametrize(("name", "value"), [("ALL_PROXY", "nonsense://x"), ("SSL_CERT_FILE", "/no/such/file")])
def test_an_environment_that_cannot_work_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    sentence = fails(make_embedder(EmbedderSettings("openai", key=KEY), {}))
    assert "check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE" in sentence
