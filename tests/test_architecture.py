"""Imports go one way: the core knows no index and no host; only the few modules that compose them do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: What puts core and index together. Everything else in memu_fs is core.
COMPOSING = {"answer", "cold_hook", "daemon", "hooking", "invocation", "local", "overview", "server", "warm"}
FOLDERS = {"memu_fs": "memu_fs", "index": "memu_fs.index", "hosts": "memu_fs.hosts", "templates": "memu_fs.templates"}


def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder != "memu_fs" or parts[0] not in {"index", "hosts", "templates"}:
                found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def layer(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "memu_fs":
        return "outside"
    if len(parts) > 1 and parts[1] in {"index", "hosts", "templates", "cli"}:
        return parts[1]
    if module == "memu_fs.__main__":
        return "main"
    return "composing" if len(parts) > 1 and parts[1] in COMPOSING else "core"


ALLOWED = {
    "core": {"core"},
    "index": {"core", "index"},
    "templates": {"templates"},
    "hosts": {"core", "templates", "hosts"},
    "composing": {"core", "index", "composing"},
    "cli": {"core", "index", "templates", "hosts", "composing", "cli"},
    "main": {"cli"},
}
#: Core modules that ask a composing one, each for a reason that its docstring gives.
EXCEPTIONS = {
    ("memu_fs.capture", "memu_fs.cli.app"),
    ("memu_fs.capture", "memu_fs.invocation"),
    ("memu_fs.diagnosis", "memu_fs.local"),
    ("memu_fs.evaluation", "memu_fs.local"),
    ("memu_fs.identity", "memu_fs.local"),
    ("memu_fs.thin", "memu_fs.cold_hook"),
}


def known(name: str) -> str:
    """Give the module that an imported name lies in."""
    return name if name in MODULES else name.rpartition(".")[0]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module: str) -> None:
    ours = {known(name) for name in imports(MODULES[module]) if name.startswith("memu_fs")}
    wrong = {name for name in ours if layer(name) not in ALLOWED[layer(module)] and (module, name) not in EXCEPTIONS}
    assert wrong == set()


@pytest.mark.parametrize("path", [*MODULES.values(), *sorted((ROOT / "tests").rglob("*.py"))], ids=str)
def test_nothing_imports_the_top_level_folders(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & {"index", "hosts", "templates"}


def test_there_is_something_to_look_at() -> None:
    assert {"memu_fs.store", "memu_fs.index.base", "memu_fs.cli.app", "memu_fs.hosts"} <= MODULES.keys()
    assert layer("memu_fs.local") == "composing"
    assert {module for module, _ in EXCEPTIONS} <= MODULES.keys()
