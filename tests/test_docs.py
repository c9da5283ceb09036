"""The documents say what the code does."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer

from memu_fs import digests
from memu_fs.cli.app import app
from memu_fs.index.base import Segment
from memu_fs.index.lance_table import schema
from memu_fs.marker import FORMAT
from memu_fs.names import identity_of, path_for

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ROOT_COMMAND: Any = typer.main.get_command(app)
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"])


def commands(path: tuple[str, ...] = (), command: Any = ROOT_COMMAND) -> Iterator[tuple[str, Any]]:
    yield " ".join(("memu-fs", *path)), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands((*path, name), inner)


COMMANDS = dict(commands())
#: What does the work itself: no groups.
DOING = {name: command for name, command in COMMANDS.items() if not hasattr(command, "commands")}


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def table(text: str, heading: str) -> list[list[str]]:
    """Give the cells of the first table below a heading, without its two head lines."""
    after = f"\n{text}".split(f"\n{heading}\n", 1)[1]
    rows = re.search(r"(?m)^(?:\|.*\n)+", after)
    assert rows is not None
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[0].strip().split("\n")[2:]]


def unquoted(cell: str) -> str:
    return cell.strip("| ").strip("`")


def test_the_command_line_page_is_current() -> None:
    written = runpy.run_path(str(ROOT / "tests" / "write_cli_docs.py"))
    assert page("cli.md") == written["cli_text"](), "run: python tests/write_cli_docs.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_has_help(name: str) -> None:
    command = COMMANDS[name]
    assert (command.help or "").strip()
    without = [parameter.name for parameter in command.params if not (getattr(parameter, "help", "") or "").strip()]
    assert without == []


@pytest.mark.parametrize("name", DOING)
def test_every_command_has_an_example_that_can_be_typed(name: str) -> None:
    help_text = DOING[name].help
    if same := re.fullmatch(r"The same as (.+)\.", help_text):
        other = COMMANDS[f"memu-fs {same[1]}"]
        assert [item.opts for item in DOING[name].params] == [item.opts for item in other.params]
        return
    examples = re.findall(r"(?m)^ *Example: (.+)$", help_text)
    assert examples
    for example in examples:
        words = shlex.split(example)
        assert " ".join(words).startswith(name)
        # Parsing refuses an option that does not exist; nothing is run.
        DOING[name].make_context(name, words[len(name.split()) :])


def test_shell_examples_in_the_documents_can_be_typed() -> None:
    for source in PAGES:
        for line in re.findall(r"(?m)^(?:\$ )?(memu-fs .+)$", "\n".join(blocks(source.read_text("utf-8"), "sh"))):
            words = shlex.split(line.split(" | ")[0].split(" < ")[0], comments=True)
            name = " ".join(words[: 3 if words[1] in {"config", "daemon"} else 2])
            assert name in COMMANDS, f"{source.name}: {line}"
            COMMANDS[name].make_context(name, words[len(name.split()) :])


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def test_the_examples_of_the_library_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMU_FS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in [name for name in os.environ if name.startswith("MEMU_FS_STORE")]:
        monkeypatch.delenv(name)
    names: dict[str, object] = {}
    examples = blocks(page("library.md"), "python")
    assert examples
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"docs/library.md, example {number}", "exec"), names)


def test_the_names_and_paths_of_the_format_page_map_onto_each_other() -> None:
    rows = table(page("format.md"), "### Names and paths")
    assert len(rows) > 8
    for track, name, path in ([unquoted(cell) for cell in row[:3]] for row in rows):
        assert path_for(track, name) == path
        assert identity_of(path) == (track, name)


def test_the_ids_of_the_format_page_are_computed_as_it_says() -> None:
    given = dict([unquoted(cell) for cell in row[:2]] for row in table(page("format.md"), "### Worked example"))
    store = UUID(given["store id"])
    file = digests.file_id(store, given["track"], given["name"])
    assert file == given["recall file id"]
    assert digests.segment_id(file, given["segment text"], 0) == given["segment id, first occurrence"]
    assert digests.segment_id(file, given["segment text"], 1) == given["segment id, second occurrence"]
    assert str(digests.UNMARKED_STORE) == given["id of a store without a marker"]


def test_the_format_page_has_the_version_that_is_written() -> None:
    assert f"Version: **{FORMAT}**" in page("format.md")


def test_the_columns_of_the_index_page_are_those_of_the_table() -> None:
    documented = [(unquoted(row[0]), unquoted(row[1])) for row in table(page("index-schema.md"), "### Columns")]
    real = [(field.name, str(field.type)) for field in schema(384)]
    assert documented == [(name, kind.replace("[384]", "[dimension]")) for name, kind in real]
    assert {field.name for field in dataclasses.fields(Segment)} <= {name for name, _ in documented}


def test_the_architecture_page_names_every_module() -> None:
    named = set(re.findall(r"`(\w+)`", page("architecture.md")))
    modules = {path.stem for folder in ("memu_fs", "index") for path in (ROOT / folder).glob("*.py")}
    assert {name for name in modules if not name.startswith("__")} <= named


@pytest.mark.parametrize("source", PAGES, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(source: Path) -> None:
    text = re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", source.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (source.parent / target).exists(), target


def test_every_decision_is_in_the_index_of_decisions_with_its_status() -> None:
    listed = {}
    for row in table(page("adr/README.md"), "# Decisions"):
        found = re.fullmatch(r"\[(\d{4})\]\((.+)\)", unquoted(row[0]))
        assert found is not None
        listed[found[2]] = unquoted(row[-1])
    records = {path.name: path.read_text("utf-8") for path in (DOCS / "adr").glob("[0-9]*.md")}
    assert listed.keys() == records.keys()
    for name, text in records.items():
        assert f"Status: {listed[name]}\n" in text, name
        assert re.findall(r"(?m)^## (.+)$", text) == ["Context", "Decision", "Consequences"], name
