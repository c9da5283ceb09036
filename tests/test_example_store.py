"""The example store is what the documentation and the other tests believe it to be."""

import json
import re
import tomllib
import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

STORE = Path(__file__).resolve().parent.parent / "example-store"
TRACKS = ("memory", "skill", "resource")
DANGLING = [("memory/projects/kilnwatch/overview", "zone-control")]
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE_SPAN = re.compile(r"`[^`\n]+`")
WIKILINK = re.compile(r"\[\[([^\]|#\\]+)(?:#([^\]|\\]+))?(?:\\?\|[^\]]+)?\]\]")
SKILL_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Note:
    """One recall file, understood just enough for these tests."""

    name: str  #: with its track in front
    path: Path
    meta: dict[str, Any]
    text: str
    body: str

    @property
    def links(self) -> list[tuple[str, str]]:
        """Target and heading of every wikilink outside code."""
        return WIKILINK.findall(CODE_SPAN.sub("", FENCE.sub("", self.body)))

    @property
    def recalled(self) -> bool:
        """Whether a reader of every scope gets this file by default."""
        today = datetime.now(UTC).date()
        begins, ends = self.meta.get("valid_from", date.min), self.meta.get("valid_until", date.max)
        return self.meta.get("status") not in ("superseded", "retired") and begins <= today <= ends


def read_note(path: Path) -> Note:
    """Split a file into front matter and body."""
    text = path.read_text("utf-8")
    front = FRONT_MATTER.match(text)
    meta = yaml.safe_load(front[1]) if front else {}
    name = path.relative_to(STORE).with_suffix("").as_posix().removesuffix("/SKILL")
    return Note(name, path, meta, text, text[front.end() :] if front else text)


def accompanies_a_skill(path: Path) -> bool:
    """Say whether a file is the companion of a SKILL.md rather than a recall file."""
    return path.name != "SKILL.md" and any((folder / "SKILL.md").exists() for folder in path.parents)


@pytest.fixture(scope="module")
def notes() -> dict[str, Note]:
    """Every recall file, by track and name."""
    paths = [path for track in TRACKS for path in sorted((STORE / track).rglob("*.md"))]
    found = [read_note(path) for path in paths if not accompanies_a_skill(path)]
    return {note.name: note for note in found}


@pytest.fixture(scope="module")
def queries() -> list[dict[str, Any]]:
    """Every query of the store."""
    return [json.loads(line) for line in (STORE / "queries.jsonl").read_text("utf-8").splitlines()]


def under(notes: dict[str, Note], prefix: str) -> list[Note]:
    """The recall files below a folder."""
    return [note for name, note in notes.items() if name.startswith(f"{prefix}/")]


def with_value(notes: dict[str, Note], key: str, value: object) -> list[str]:
    """The names of the files whose front matter has this value."""
    return [name for name, note in notes.items() if note.meta.get(key) == value]


def link_targets(notes: dict[str, Note]) -> dict[str, Note]:
    """Everything a wikilink may be written as: a name, its last component, an alias."""
    found: dict[str, Note] = {}
    for name, note in notes.items():
        written = [name.split("/", 1)[1], PurePosixPath(name).name, *note.meta.get("aliases", [])]
        found |= dict.fromkeys(written, note)
    return found


def test_the_marker_holds_the_format_and_a_uuid() -> None:
    marker = tomllib.loads((STORE / ".memu-fs.toml").read_text("utf-8"))
    assert marker == {"format": 1, "id": str(uuid.UUID(marker["id"]))}


@pytest.mark.parametrize(
    ("folder", "least"),
    [
        ("memory", 42),
        ("memory/projects/github.com/norvessa/coldtrail", 6),
        ("memory/projects/kilnwatch", 6),
        ("memory/agents", 2),
        ("skill", 15),
        ("skill/projects", 3),
        ("resource", 8),
    ],
)
def test_there_is_enough_of_everything(notes: dict[str, Note], folder: str, least: int) -> None:
    assert len(under(notes, folder)) >= least


def test_no_file_is_a_stub_or_a_scroll(notes: dict[str, Note]) -> None:
    assert [name for name, note in notes.items() if not 8 <= len(note.text.splitlines()) <= 60] == []


def test_some_files_have_no_front_matter_and_the_rest_say_what_they_hold(notes: dict[str, Note]) -> None:
    assert len([note for note in notes.values() if not note.meta]) >= 3
    assert all({"name", "description"} <= note.meta.keys() for note in notes.values() if note.meta)


def test_skills_in_folders_follow_the_agent_skills_form(notes: dict[str, Note]) -> None:
    skills = [note for note in under(notes, "skill") if note.path.name == "SKILL.md"]
    assert len(skills) >= 5
    for skill in skills:
        assert skill.meta["name"] == skill.path.parent.name
        assert SKILL_NAME.fullmatch(skill.meta["name"])
        assert ". Use " in skill.meta["description"]


def test_skills_come_with_companions_and_with_proofs(notes: dict[str, Note]) -> None:
    companions = {path.suffix for path in (STORE / "skill").rglob("*.*") if accompanies_a_skill(path)}
    assert companions >= {".md", ".py"}
    assert sum("verify" in note.meta for note in under(notes, "skill")) >= 2


def test_resources_say_where_they_are_and_what_they_hold(notes: dict[str, Note]) -> None:
    for resource in under(notes, "resource"):
        assert ("url" in resource.meta) != ("local_path" in resource.meta)
        assert resource.body.strip()


def test_every_state_occurs(notes: dict[str, Note]) -> None:
    assert len(with_value(notes, "status", "superseded")) == 2
    assert with_value(notes, "status", "disputed") == ["memory/sensors/battery-life"]
    assert with_value(notes, "pinned", True) == ["memory/how-i-work"]
    assert with_value(notes, "valid_until", date(2025, 9, 30)) == ["memory/people/summer-rota-2025"]
    assert with_value(notes, "valid_from", date(2038, 1, 19)) == ["memory/sensors/clock-2038"]


def test_what_agents_wrote_says_where_it_was_learned(notes: dict[str, Note]) -> None:
    written = [notes[name] for name in with_value(notes, "origin", "agent")]
    assert sum(note.meta["status"] == "unverified" for note in written) >= 4
    for note in written:
        assert note.meta["sources"]
        assert all(source.keys() == {"host", "session", "at", "run"} for source in note.meta["sources"])


def test_supersession_is_written_on_both_sides(notes: dict[str, Note]) -> None:
    old_notes = [note for note in notes.values() if "superseded_by" in note.meta]
    successors = {note.name: f"memory/{note.meta['superseded_by']}" for note in old_notes}
    replacing = [name for name, note in notes.items() if "supersedes" in note.meta]
    assert sorted(successors.values()) == sorted(replacing)
    assert all(f"memory/{notes[new].meta['supersedes']}" == old for old, new in successors.items())


def test_every_wikilink_but_one_leads_somewhere(notes: dict[str, Note]) -> None:
    known = link_targets(notes)
    written = [(name, target) for name, note in notes.items() for target, _ in note.links]
    assert len(written) >= 30
    assert [link for link in written if link[1] not in known] == DANGLING


def test_every_heading_a_wikilink_names_exists(notes: dict[str, Note]) -> None:
    known = link_targets(notes)
    links = [(target, heading) for note in notes.values() for target, heading in note.links if heading]
    assert links
    assert all(f"# {heading}\n" in known[target].body for target, heading in links)


def test_obsidian_forms_occur(notes: dict[str, Note]) -> None:
    everything = "\n".join(note.body for note in notes.values())
    assert "![[probe-models#Models]]" in everything
    assert "> [!warning]" in everything
    assert "[[queue|the NATS decision]]" in everything


def test_there_are_enough_queries_of_each_kind(queries: list[dict[str, Any]]) -> None:
    least = {"paraphrase": 45, "identifier": 30, "skill": 15, "multilingual": 6, "none": 12}
    found = Counter(query["kind"] for query in queries)
    assert found.keys() == least.keys()
    assert [kind for kind in least if found[kind] < least[kind]] == []
    assert len(queries) >= 110


def test_no_query_is_asked_twice(queries: list[dict[str, Any]]) -> None:
    assert max(Counter(query["query"] for query in queries).values()) == 1


def test_queries_have_the_documented_form(queries: list[dict[str, Any]]) -> None:
    for query in queries:
        assert query.keys() == {"query", "files", "lines", "kind", "match"}
        assert query["match"] in ("all", "any")
        assert list(query["lines"]) == query["files"]
        assert (query["files"] == []) == (query["kind"] == "none")


def test_the_answers_of_queries_are_recalled_by_default(notes: dict[str, Note], queries: list[dict[str, Any]]) -> None:
    gold = {name for query in queries for name in query["files"]}
    assert [name for name in sorted(gold) if name not in notes or not notes[name].recalled] == []


def test_the_lines_of_queries_exist_and_begin_and_end_with_text(
    notes: dict[str, Note], queries: list[dict[str, Any]]
) -> None:
    ranges = [(name, *span) for query in queries for name, spans in query["lines"].items() for span in spans]
    for name, first, last in ranges:
        lines = notes[name].text.splitlines()
        assert 1 <= first <= last <= len(lines)
        assert lines[first - 1].strip()
        assert lines[last - 1].strip()
