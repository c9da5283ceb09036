"""An embedder behind HTTP: any server that speaks the OpenAI embeddings protocol."""

from __future__ import annotations

import ipaddress
import json
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from memu_fs.errors import UsageError
from memu_fs.index.base import Vector
from memu_fs.index.embedder import EmbedderError, EmbedderSettings, clean, unit
from memu_fs.index.presets import DIMENSIONS, Preset, prefixes
from memu_fs.index.reply import read_vectors

if TYPE_CHECKING:
    import httpx

_ATTEMPTS = 4  # for documents; someone waits for a query and a dimension: once more and no longer
_QUERY_ATTEMPTS = 2
_LONGEST_PAUSE = 20.0  # seconds; a server may ask for more and does not get it
_LARGEST_ANSWER = 1 << 28  # bytes
_PASSING = (408, 409, 425, 429, 500, 502, 503, 504)


class ServerError(EmbedderError):
    """The embedding server failed, or its answer makes no sense."""

    def __init__(self, server: str, fault: str, remedy: str = "") -> None:
        super().__init__(f"The embedding server {server} {fault}." + (f" {remedy}." if remedy else ""))


class _PassingError(Exception):
    """A failure that may be gone in a moment."""

    def __init__(self, error: ServerError, pause: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause = pause


class EndpointEmbedder:
    """Embeds by asking a server, in batches, again if need be."""

    def __init__(self, preset: Preset, model: str, settings: EmbedderSettings, key: str | None) -> None:
        self._preset = preset
        self._model = model or preset.model
        self._settings = settings
        self._key = key
        self._url, self._server, self._is_loopback = _parse_url(settings.url or preset.url)
        self._dimension = settings.dimension or DIMENSIONS.get(self._model)
        self._document, self._query = prefixes(self._model)
        self._client: httpx.Client | None = None

    @property
    def space(self) -> str:
        """Provider, model and dimension: where the server stands is no part of it."""
        return f"{self._preset.name}:{self._model}:{self.dimension}"

    @property
    def dimension(self) -> int:
        """How long its vectors are; asked once if neither settings nor the table know."""
        if self._dimension is None:
            self._dimension = len(self._embed(["size"], self._typed(self._preset.document), _QUERY_ATTEMPTS)[0])
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Give one row per text."""
        step = max(1, self._settings.batch)
        sent = [self._document + (clean(text).strip() or "-") for text in texts]  # empty ones are refused
        fields = self._typed(self._preset.document)
        batches = [self._embed(sent[start : start + step], fields) for start in range(0, len(sent), step)]
        return np.concatenate(batches) if batches else np.empty((0, self.dimension), dtype=np.float32)

    def embed_query(self, text: str) -> Vector:
        """Give the vector of what someone looks for."""
        query = self._query + (clean(text).strip() or "-")
        row: Vector = self._embed([query], self._typed(self._preset.query), _QUERY_ATTEMPTS)[0]
        return row

    def _typed(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        return fields if self._model.startswith(self._preset.typed) else {}

    def _embed(self, texts: list[str], fields: Mapping[str, str], attempts: int = _ATTEMPTS) -> Vector:
        body: dict[str, Any] = {"model": self._model, "input": texts, **fields}
        if self._settings.dimension and self._settings.dimension != DIMENSIONS.get(self._model):
            body[self._preset.size] = self._settings.dimension
        answer = self._ask(json.dumps(body).encode(), attempts)
        try:
            vectors = read_vectors(answer, len(texts), self._dimension)
        except ValueError as error:
            remedy = "Check its address and the model's name"
            raise ServerError(self._server, f"gave an answer that is no use: {error}", remedy) from error
        return unit(vectors, f"The embedding server {self._server}")

    def _ask(self, body: bytes, attempts: int) -> bytes:
        for attempt in range(1, attempts + 1):
            try:
                return self._ask_once(body)
            except _PassingError as failure:
                if attempt == attempts:
                    raise failure.error from None
                pause = 0.25 * 2**attempt if failure.pause is None else failure.pause
            time.sleep(min(pause, _LONGEST_PAUSE))
        raise AssertionError

    def _ask_once(self, body: bytes) -> bytes:
        import httpx

        deadline = time.monotonic() + self._settings.timeout
        try:
            with self._open().stream("POST", self._url, content=body) as response:
                content = bytearray()
                for block in response.iter_bytes():
                    content += block
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("too slow", request=response.request)
                    if len(content) > _LARGEST_ANSWER:
                        raise ServerError(self._server, "gave an answer that does not end")
        except httpx.TimeoutException:
            late = f"did not answer within {self._settings.timeout:g} s"
            raise ServerError(self._server, late, "Check it, or raise embedder_timeout") from None
        except httpx.RequestError as error:
            fault = f"cannot be reached ({self._shown(str(error))})"
            raise _PassingError(ServerError(self._server, fault, "Check that it runs and its address")) from None
        except httpx.InvalidURL:
            raise _bad_address() from None
        if response.status_code != 200:
            raise self._refusal(response.status_code, response.headers, bytes(content))
        return bytes(content)

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes) -> Exception:
        """Say what a status other than 200 means."""
        if status in (401, 403):
            remedy = f"Set the right key in MEMU_FS_EMBEDDER_KEY or {self._preset.key_variable}"
            return ServerError(self._server, f"refused the key ({status})", remedy)
        said = self._shown(_message(content))
        fault = f"answered {status}" + (f": {said}" if said else "")
        remedy = f"Check its address and that it has the model {self._model}" if 300 <= status < 500 else ""
        if status in _PASSING:
            return _PassingError(ServerError(self._server, fault, "Try again later"), _pause(headers))
        return ServerError(self._server, fault, remedy)

    def _shown(self, text: str) -> str:
        """Cut a server's words down to one short line without the key."""
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if self._key and self._key[:12] in line:
            return ""
        return line[:200].rstrip(". ")

    def _open(self) -> httpx.Client:
        if self._client is None:
            self._client = self._connect()
            weakref.finalize(self, self._client.close)
        return self._client

    def _connect(self) -> httpx.Client:
        import httpx

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        direct = dict.fromkeys(("all://", "http://", "https://")) if self._is_loopback else None
        try:
            return httpx.Client(headers=headers, timeout=self._settings.timeout, mounts=direct)
        except (ValueError, ImportError, OSError, httpx.InvalidURL):
            raise EmbedderError(
                "The proxy or certificate settings in the environment cannot be used: "
                "check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR."
            ) from None


def _parse_url(base: str) -> tuple[str, str, bool]:
    """Split a base address into the full one, the server as shown, and whether that is this machine."""
    try:
        url = urlsplit(base.strip())
        host, port = url.hostname, url.port
        (host or "").encode("idna")
    except ValueError:
        host = None
    if not host or url.scheme not in ("http", "https"):
        raise _bad_address()
    if "@" in url.netloc:
        raise UsageError("The embedder's address holds a password: take it out and set MEMU_FS_EMBEDDER_KEY.")
    path = url.path.rstrip("/").removesuffix("/embeddings") + "/embeddings"
    return (
        url._replace(path=path, fragment="").geturl(),
        f"{host}:{port}" if port else host,
        _is_loopback(host),
    )


def _bad_address() -> UsageError:
    return UsageError("The embedder's address must look like http://host:port/v1: set embedder_url.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _message(content: bytes) -> str:
    """Find what the server has to say; a page of HTML says nothing."""
    try:
        said = json.loads(content)
    except ValueError:
        return ""
    for name in ("error", "detail", "message"):
        if isinstance(said, dict) and name in said:
            said = said[name]
    return said if isinstance(said, str) else ""


def _pause(headers: Mapping[str, str]) -> float | None:
    """Read Retry-After in seconds; its other form, a date, is left to the usual back-off."""
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None
