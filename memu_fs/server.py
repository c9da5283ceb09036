"""The HTTP application in front of one memory: memU's paths, and what the command line asks of a daemon."""

from __future__ import annotations

import hmac
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memu_fs import __version__, capture
from memu_fs.backend import DEFAULT_PAGE
from memu_fs.errors import MemuError, UsageError
from memu_fs.invocation import Invocation
from memu_fs.runtime import PROTOCOL
from memu_fs.thin import config_variables
from memu_fs.warm import WarmMemory

#: A request with a larger body is refused.
MAX_BODY = 16 * 1024 * 1024
#: What may stand several times in the query of a listing, how it says yes and no, and what a search takes.
_LISTS = {"scope", "track"}
_FLAGS = {"true": True, "false": False}
_OPTIONS: Mapping[str, type] = {"limit": int, "content": bool, "explain": bool}


@dataclass(slots=True)
class Serving:
    """What a running server knows of itself."""

    memory: WarmMemory
    token: str | None  #: that every request must carry; ``None`` on a socket that only its user can open
    stop: Callable[[], None]
    started: float = field(default_factory=time.monotonic)
    last_request: float = field(default_factory=time.monotonic)


def application(serving: Serving) -> Starlette:
    """Build the application."""

    def route(path: str, method: str, answer: Callable[[Serving, Request, Any], Any]) -> Route:
        async def endpoint(request: Request) -> Response:
            serving.last_request = time.monotonic()
            if serving.token and not _carries(request, serving.token):
                return _error(401, "This server needs its key: send Authorization: Bearer KEY.")
            body = await _body(request)
            if isinstance(body, Response):
                return body
            try:
                return _json(await run_in_threadpool(answer, serving, request, body))
            except UsageError as error:
                return _error(400, str(error))
            except MemuError as error:
                return _error(500, str(error))

        return Route(path, endpoint, methods=[method])

    routes = [
        route("/health", "GET", _health),
        route("/cli", "POST", _cli),
        route("/stop", "POST", _stop),
        route("/status", "POST", _status),
    ]
    for end in ("", "/"):
        routes += [
            route(f"/api/v4/memory{end}", "GET", _list),
            route(f"/api/v4/memory/search{end}", "POST", _search),
            route(f"/api/v4/memory{end}", "POST", _commit),
        ]
    return Starlette(routes=routes)


def _carries(request: Request, token: str) -> bool:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    return hmac.compare_digest(given.encode(), token.encode())


async def _body(request: Request) -> Any:
    if request.method == "GET":
        return None
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            return _error(413, f"The request is larger than {MAX_BODY // 1024 // 1024} MB.")
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return _error(400, "The request is not JSON.")
    return value if isinstance(value, dict) else _error(400, "The request must be a JSON object.")


def _health(serving: Serving, _request: Request, _body: Any) -> Any:
    return {
        "version": __version__,
        "protocol": PROTOCOL,
        "pid": os.getpid(),
        "store": str(serving.memory.sidecar.store.root),
        "uptime": round(time.monotonic() - serving.started, 1),
    }


def _status(serving: Serving, request: Request, body: Any) -> Any:
    sidecar = serving.memory.sidecar
    report = sidecar.last_pass
    return _health(serving, request, body) | {
        "memory_mb": round(resident_bytes() / 1_000_000, 1),
        "watcher": sidecar.watcher.mode,
        "watcher_reason": sidecar.watcher.reason,
        "last_pass_at": sidecar.last_pass_at,
        "last_pass_ms": sidecar.last_pass_ms,
        "last_pass": report.as_json() if report else None,
        "last_error": sidecar.last_error,
    }


def _stop(serving: Serving, _request: Request, _body: Any) -> Any:
    serving.stop()
    return {"stopping": True}


def _cli(serving: Serving, _request: Request, body: Any) -> Any:
    """Run a command for a thin client, under the client's working directory and environment."""
    if body.get("protocol") != PROTOCOL or _is_newer(str(body.get("version"))):
        serving.stop()
        raise MemuError("This daemon is of another version and ends now.")
    memory = serving.memory

    def warm(stores: Any, config: Any) -> Any:
        if not memory.fits(stores, config):
            if memory.is_outdated():
                serving.stop()
            raise NotMineError
        return memory

    invocation = Invocation(Path(body["cwd"]), body["env"], True, body.get("stdin"), body.get("deadline"), warm)
    try:
        if config_variables(os.environ)[1:] != config_variables(body["env"])[1:]:
            raise NotMineError
        return capture.run(list(body["argv"]), invocation)
    except NotMineError:
        raise MemuError("This daemon holds another store or other settings.") from None


class NotMineError(Exception):
    """The command means another store, or other settings, than this daemon holds; no command prints that."""


def _is_newer(version: str) -> bool:
    return _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


def _list(serving: Serving, request: Request, _body: Any) -> Any:
    given = request.query_params
    asked: dict[str, Any] = {name: given.getlist(name) if name in _LISTS else given[name] for name in given}
    limit = asked.pop("limit", str(DEFAULT_PAGE))
    cursor = asked.pop("cursor", None)
    if asked.get("include_inactive") in _FLAGS:
        asked["include_inactive"] = _FLAGS[asked["include_inactive"]]
    if not (limit.isdecimal() and len(limit) < 10):
        raise UsageError("limit must be a whole number.")
    return serving.memory.list_all_recall_files(_where(asked), cursor, int(limit), content=True)


def _search(serving: Serving, _request: Request, body: Any) -> Any:
    query = body.pop("query", "")
    options = {key: body.pop(key) for key in _OPTIONS if key in body}
    if not isinstance(query, str):
        raise UsageError("query must be a text.")
    for name, value in options.items():
        if type(value) is not _OPTIONS[name]:
            raise UsageError(f"{name} must be {'a whole number' if _OPTIONS[name] is int else 'true or false'}.")
    return serving.memory.progressive_retrieve(query, _where(body), **options)


def _commit(serving: Serving, _request: Request, body: Any) -> Any:
    files, resource, user = body.get("recall_files") or [], body.get("resource") or [], body.get("user")
    if not isinstance(files, list) or not isinstance(resource, list):
        raise UsageError("recall_files and resource must be lists.")
    return serving.memory.commit_results(files, resource, user)


def _where(asked: dict[str, Any]) -> dict[str, object]:
    """Turn memU's ``user_id`` and ``agent_id`` into a scope; a store has one user, so the first is not looked at."""
    where = dict(asked)
    where.pop("user_id", None)
    agent = where.pop("agent_id", None)
    if "scope" not in where:
        where["scope"] = [f"agent:{agent}"] if agent and agent != "default" else ["shared"]
    return where


def _json(value: Any) -> Response:
    return JSONResponse(value)


def _error(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)


def resident_bytes() -> int:
    """Give the anonymous memory of this process, where the system tells; else 0."""
    try:
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
