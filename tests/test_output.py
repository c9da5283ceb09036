"""``docs/output.md`` describes what the commands print: no field more, no field less."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memu_fs import launch
from memu_fs.cli.app import run
from memu_fs.event_log import record

PAGE = (Path(__file__).parents[1] / "docs" / "output.md").read_text("utf-8")

FILES = {
    "memory/tides.md": "---\nname: Tides\ndescription: When the harbour floods\ntags: [sea]\npinned: true\n---\n\n"
    "# Tides\n\nThe harbour floods at spring tide. See [[currents]] and [[nothing]].\n",
    "memory/currents.md": "# Currents\n\nThe current turns before the [tide](tides.md).\n",
    "memory/tides.conflict-0123abcd.md": "# Tides\n\nThe harbour floods at neap tide.\n",
    "memory/old.md": "---\nstatus: superseded\nsuperseded_by: tides\n---\n\nThe harbour never floods.\n",
    "memory/broken.md": "---\nname: [\n---\n\nA lighthouse.\n",
    "skill/read-tide-table/SKILL.md": "---\nname: read-tide-table\ndescription: Read a tide table of the harbour\n"
    "verify: test -f table.txt\n---\n\nLook up the harbour.\n",
    "skill/read-tide-table/terms.md": "# Terms\n\nSpring tide: the highest of the harbour.\n",
    "resource/tide-table.md": "---\ndescription: Tide table of the harbour\nurl: https://example.org/tides\n---\n",
}
QUERIES = [
    {"query": "when does the harbour flood", "files": ["memory/tides"], "lines": {"memory/tides": [[8, 10]]}},
    {"query": "submarines", "files": [], "kind": "unanswerable"},
]


@dataclass(frozen=True)
class Field:
    kind: str
    is_always: bool


def read_shapes() -> dict[str, dict[str, Field]]:
    """Read every ``### Name`` with a table of fields out of the page."""
    shapes: dict[str, dict[str, Field]] = {}
    for name, rows in re.findall(r"(?m)^### (\w+)\n(?:(?!#|\|).*\n)*((?:\|.*\n)+)", PAGE):
        cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows.strip().split("\n")[2:]]
        shapes[name] = {row[0].strip("` "): Field(row[1], row[2] == "always") for row in cells}
    return shapes


class Checker:
    """Holds values to the shapes of the page, and remembers which fields it has seen."""

    def __init__(self) -> None:
        self.shapes = read_shapes()
        self.seen: set[tuple[str, str]] = set()

    def check(self, kind: str, value: Any, where: str) -> None:
        assert any(self._fits(choice, value, where) for choice in kind.split(" or ")), (
            f"{where} is no {kind}: {value!r}"
        )

    def _fits(self, kind: str, value: Any, where: str) -> bool:
        if kind.startswith('"'):
            return isinstance(value, str) and value == kind.strip('"')
        if kind in PLAIN:
            return PLAIN[kind](value)
        for prefix, container in (("list of ", list), ("map of ", dict)):
            if kind.startswith(prefix):
                if not isinstance(value, container):
                    return False
                for item in value.values() if isinstance(value, dict) else value:
                    self.check(kind.removeprefix(prefix), item, where)
                return True
        return isinstance(value, dict) and self._has_shape(kind, value, where)

    def _has_shape(self, name: str, value: dict[str, Any], where: str) -> bool:
        fields = self.shapes[name]
        assert value.keys() <= fields.keys(), f"{where}: not in {name}: {value.keys() - fields.keys()}"
        lacking = [key for key, field in fields.items() if field.is_always and key not in value]
        assert not lacking, f"{where}: {name} lacks {lacking}"
        for key, item in value.items():
            self.seen.add((name, key))
            self.check(fields[key].kind, item, f"{where}.{key}")
        return True


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


PLAIN: dict[str, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": is_number,
    "whole number": lambda value: is_number(value) and isinstance(value, int),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "anything": lambda value: isinstance(value, object),
}


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a device with two stores, one of them a git repository, and settings of its own."""
    monkeypatch.setenv("MEMU_FS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path, text in FILES.items():
        (tmp_path / "store" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / path).write_text(text, "utf-8")
    (tmp_path / "other" / "memory").mkdir(parents=True)
    (tmp_path / "other" / "memory" / "wind.md").write_text("The harbour has wind from the west.\n", "utf-8")
    (tmp_path / "store" / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in QUERIES), "utf-8")
    return tmp_path


@pytest.fixture
def daemon(device: Path) -> Iterator[None]:
    """Start a real daemon of the store, and end it."""
    type_in("index", "--store", "store")
    type_in("daemon", "start", "--store", "store")
    assert launch.wait_for(device / "store") is not None
    yield
    launch.stop(device / "store")


def type_in(*words: str, given: str = "") -> str:
    command = [sys.executable, "-P", "-m", "memu_fs", *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


def commit_all(root: Path) -> None:
    for words in (["add", "memory", "skill"], ["commit", "-q", "-m", "Begin"]):
        name = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "-C", str(root), *name, *words], check=True)


def test_what_every_command_prints_is_what_the_page_says(
    device: Path, daemon: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = Checker()

    def ask(kind: str, *words: str) -> Any:
        run(words)
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(printed) == 1, words
        checker.check(kind, printed[0], " ".join(words))
        return printed[0]

    ask("Initialised", "init", "store", "--json")
    commit_all(device / "store")
    here = ["--store", "store", "--json"]
    scoped = [*here, "--scope", "all"]
    ask("Status", "status", *here)
    ask("Indexed", "index", *here)
    ask("Status", "status", *here)
    ask("Status", "status", "--store", "other", "--json")
    ask("Checked", "check", *here)
    ask("Diagnosis", "doctor", *here)
    plain = ask("Retrieval", "retrieve", "harbour", *scoped)
    assert plain["segments"]
    assert plain["files"]
    assert plain["resources"]
    ask("Retrieval", "retrieve", "harbour flood", *scoped, "--explain", "--content", "--include-inactive")
    ask("Retrieval", "retrieve", "harbour", *scoped, "--store", "other")
    ask("Page", "list", *scoped, "--content", "--limit", "2")
    ask("Page", "list", *scoped, "--include-inactive")
    ask("Shown", "show", "memory/tides", *scoped, "--links")
    ask("Shown", "show", "memory/currents", *scoped)
    ask("Evaluation", "eval", "store", "--json")
    ask("Settings", "config", "show", "--json")
    ask("Changed", "config", "set", "freshness_seconds", "3", "--json")
    ask("Changed", "config", "unset", "freshness_seconds", "--json")
    monkeypatch.setattr("sys.stdin", io.StringIO("harbour\n\n"))
    assert run(["retrieve", "--batch", *scoped]) == 1
    first, second = capsys.readouterr().out.splitlines()
    checker.check("Retrieval", json.loads(first), "first line of the batch")
    checker.check("Failure", json.loads(second), "second line of the batch")
    ask("Daemon", "daemon", "start", *here)
    ask("Daemon", "daemon", "status", *here)
    ask("Installed", "daemon", "install", "--dry-run", *here)
    ask("Uninstalled", "daemon", "uninstall", *here)
    assert type_in("retrieve", "--store", "store", "--hook", "generic", given='{"query": "zebras", "cwd": "/"}') == ""
    record(device / "store" / ".memu", "error", during="pass", reason="disk-full")
    found = ask("Stats", "stats", *here)
    assert found["silent_hooks"]
    assert found["errors"] == {"disk-full": 1}
    ask("Stopped", "daemon", "stop", *here)
    ask("Daemon", "daemon", "status", *here)
    unseen = {(name, key) for name, fields in checker.shapes.items() for key in fields} - checker.seen
    assert not unseen, "on the page, printed by nothing"


def test_the_example_of_the_page_has_the_shape_of_the_page() -> None:
    examples = re.findall(r"(?ms)^```json\n(.*?)^```$", PAGE)
    assert examples
    for example in examples:
        Checker().check("Retrieval", json.loads(example), "example")
