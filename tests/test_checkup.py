"""The checkup finds each fault once, with its path and line, and never repeats a secret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memu_fs.checkup import check_store

if TYPE_CHECKING:
    from conftest import MakeStore

MARKER = {".memu-fs.toml": "format = 1\n"}
SKILL = "---\nname: deploy\ndescription: Puts it online. Use before a release.\n---\nSteps\n"
SECRET = "AKIA" + "Q3EGTZ7MX4PLV2WN"


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("---\nname: x\nbad: [\n---\nBody\n", 4, "front-matter"),
        ("---\nname: x\n", 1, "front-matter"),
        ("---\nname: x\nname: y\n---\nBody\n", 3, "front-matter"),
        ("---\nname: x\nstatus: good\n---\nBody\n", 3, "front-matter-value"),
        ("---\nvalid_from: 2026-02-01\nvalid_until: 2026-01-01\n---\nBody\n", 3, "front-matter-value"),
        ("---\nname: x\nsuperseded_by: gone\n---\nBody\n", 3, "superseded"),
        ("---\nname: x\nstatus: superseded\n---\nBody\n", 3, "superseded"),
        ("---\nname: x\n---\n\nsee [[nowhere]]\n", 5, "link"),
        ("see [x](nowhere.md)\n", 1, "link"),
        (b"one\n\xff\n", 2, "encoding"),
        (b"one\n\0\n", 2, "encoding"),
        ("---\nname: x\n---\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> c\n", 4, "conflict-markers"),
        (f"---\nname: x\n---\n\nkey {SECRET}\n", 5, "secret"),
        (f"---\nname: x\ndescription: {SECRET}\n---\nBody\n", 3, "secret"),
        ("", 0, "empty"),
        ("---\nname: x\n---\n \n", 0, "empty"),
    ],
)
def test_each_fault_of_a_file_is_found_once(store: MakeStore, text: str | bytes, line: int, rule: str) -> None:
    found = check_store(store({**MARKER, "memory/a.md": text}))
    assert [(problem.path, problem.line, problem.rule) for problem in found.problems] == [("memory/a.md", line, rule)]
    assert found.is_clean is (rule == "empty")
    assert SECRET not in str(found.as_json())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Steps\n", 1),
        ("---\nname: deploy\n---\nSteps\n", 1),
        ("---\ndescription: Puts it online.\n---\nSteps\n", 1),
        ("---\ndescription: x\nname: Deploy It\n---\nSteps\n", 3),
        ("---\ndescription: x\nname: " + "a" * 65 + "\n---\nSteps\n", 3),
        ("---\nname: deploy\ndescription: " + "a " * 600 + "\n---\nSteps\n", 3),
    ],
)
def test_a_skill_needs_a_name_and_a_description(store: MakeStore, text: str, line: int) -> None:
    found = check_store(store({**MARKER, "skill/deploy/SKILL.md": text}))
    assert {(problem.path, problem.line, problem.rule) for problem in found.problems} == {
        ("skill/deploy/SKILL.md", line, "skill")
    }


def test_faults_in_the_parts_of_a_skill_are_found(store: MakeStore) -> None:
    found = check_store(
        store(
            {**MARKER, "skill/x/SKILL.md": SKILL, "skill/x/ref.md": f"[[nowhere]]\n{SECRET}\n", "skill/x/empty.md": ""}
        )
    )
    assert [(problem.path, problem.line, problem.rule) for problem in found.problems] == [
        ("skill/x/empty.md", 0, "empty"),
        ("skill/x/ref.md", 1, "link"),
        ("skill/x/ref.md", 2, "secret"),
    ]


def test_faults_of_the_folder_are_found(store: MakeStore, tmp_path: Path) -> None:
    made = store(
        {
            "memory/Owl.md": "x",
            "memory/owl.md": "x",
            "memory/a.markdown": "x",
            "memory/kept.md": "x",
            "memory/kept.conflict-0a1b2c.md": "y",
            ".tombstones/memory/gone.md": "x",
            "memory/gone.md": "back",
            "memory/big.md": b"x" * (17 * 1024 * 1024),
        }
    )
    (made.root / "memory/out.md").symlink_to(tmp_path)
    found = {(problem.path, problem.rule) for problem in check_store(made).problems}
    assert found == {
        ("memory/Owl.md", "collision"),
        ("memory/owl.md", "collision"),
        ("memory/a.markdown", "extension"),
        ("memory/kept.conflict-0a1b2c.md", "conflict-copy"),
        ("memory/gone.md", "forgotten"),
        ("memory/big.md", "unreadable"),
        ("memory/out.md", "symlink"),
        (".memu-fs.toml", "marker"),
    }


def test_a_link_to_a_file_that_is_no_recall_file_is_fine(store: MakeStore) -> None:
    files = {"README.md": "x", "memory/a.md": "[up](../README.md) [b](b%20c.md) ![[photo.png]]", "memory/b c.md": "x"}
    assert check_store(store({**MARKER, **files})).problems == ()


def test_an_allowed_secret_is_none(store: MakeStore) -> None:
    marker = f"format = 1\n[secrets]\nallow = ['{SECRET[:6]}.*']\n"
    assert check_store(store({".memu-fs.toml": marker, "memory/a.md": f"key {SECRET}\n"})).is_clean


def test_a_store_without_faults_is_clean_and_unchanged(store: MakeStore) -> None:
    successor = "---\nsuperseded_by: new\nstatus: superseded\n---\nold, see [[new]]\n"
    made = store({**MARKER, "memory/old.md": successor, "memory/new.md": "new\r\n", "skill/deploy.md": SKILL})
    before = {path: path.read_bytes() for path in made.root.rglob("*.md")}
    found = check_store(made)
    assert (found.files, found.problems, found.is_clean) == (3, (), True)
    assert {path: path.read_bytes() for path in made.root.rglob("*.md")} == before
