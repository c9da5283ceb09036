"""Links are found as Obsidian and Markdown write them, and resolved to files."""

from __future__ import annotations

import time

import pytest

from memu_fs.links import LinkMap, find_links, map_links
from memu_fs.recall_file import RecallFile, parse


def read(text: str, path: str = "memory/a.md") -> RecallFile:
    return parse(path, text.encode())


def targets(text: str) -> list[str]:
    return [link.target + link.anchor for link in find_links(read(text))]


def mapped(files: dict[str, str]) -> LinkMap:
    return map_links(read(text, path) for path, text in files.items())


def resolved(source: str, text: str, *others: str) -> list[str]:
    found = mapped({source: text, **{other.partition("|")[0]: other.partition("|")[2] for other in others}})
    return [path for _, path in found.links[source]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[owl]]", ["owl"]),
        ("[[ owl ]] and [[ops/deploy]]", ["owl", "ops/deploy"]),
        ("[[owl|the bird]]", ["owl"]),
        ("[[owl#Food]]", ["owl#Food"]),
        ("[[owl#Food|what it eats]]", ["owl#Food"]),
        ("[[owl^b1]] [[owl#^b1]]", ["owl^b1", "owl#^b1"]),
        ("![[owl]] ![[owl#Food]]", ["owl", "owl#Food"]),
        ("[[#Food]]", ["#Food"]),
        ("[[]] [[ ]] [[|x]]", []),
        ("\\[[owl]]", []),
        ("![[photo.png]] [[paper.PDF]] ![[clip.mp4|300]]", []),
        ("[[node.js]] [[v1.2]]", ["node.js", "v1.2"]),
        ("[a](b.md) [c](../d/e.md#f)", ["b.md", "../d/e.md#f"]),
        ('[a](b.md "title")', ["b.md"]),
        ("[a](caf%C3%A9%20x.md)", ["café x.md"]),
        ("![a](b.md)", ["b.md"]),
        ("[a](https://example.org/b.md) [a](b.png) \\[a](b.md)", []),
    ],
)
def test_links_are_found(text: str, found: list[str]) -> None:
    assert targets(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "`[[owl]]`",
        "``a ` [[owl]]``",
        "```\n[[owl]]\n```",
        "~~~md\n[[owl]]\n~~~",
        "    [[owl]]\n",
        "- item\n\n  ```\n  [[owl]]\n  ```",
        "> ```\n> [[owl]]\n> ```",
        "```\n[[owl]]",
        "`[a](owl.md)`",
    ],
)
def test_code_holds_no_links(text: str) -> None:
    assert targets(text) == []


def test_a_lone_backtick_hides_nothing() -> None:
    assert targets("it`s [[owl]]\n\n``[[elk]]`") == ["owl", "elk"]


def test_a_bar_in_a_table_is_escaped() -> None:
    text = "| who | what |\n| --- | --- |\n| [[owl\\|the bird]] | [[elk#Food\\|eats]] ![[fox\\|f]] |\n"
    found = find_links(read(text))
    assert [(link.target, link.anchor, link.text) for link in found] == [
        ("owl", "", "the bird"),
        ("elk", "#Food", "eats"),
        ("fox", "", "f"),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_are_those_of_the_file(newline: str) -> None:
    text = newline.join(["---", "name: x", "---", "", "[[owl]]", "```", "[[no]]", "```", "[[elk]]"])
    assert [(link.line, link.target) for link in find_links(read(text))] == [(5, "owl"), (9, "elk")]


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("[[owl]]", "memory/birds/owl.md"),
        ("[[OWL]]", "memory/birds/owl.md"),
        ("[[owl.md]]", "memory/birds/owl.md"),
        ("[[birds/owl]]", "memory/birds/owl.md"),
        ("[[memory/birds/owl]]", "memory/birds/owl.md"),
        ("[[memory/birds/owl.md]]", "memory/birds/owl.md"),
        ("[[Strix aluco]]", "memory/birds/owl.md"),
        ("[[The Owl]]", "memory/birds/owl.md"),
        ("[[cafe\u0301]]", "memory/caf\u00e9.md"),
        ("[[deploy]]", "skill/deploy/SKILL.md"),
        ("[[guide]]", "resource/guide.md"),
        ("[[workspace/guide]]", "resource/guide.md"),
        ("[[resource/guide]]", "resource/guide.md"),
        ("[[#Here]]", "memory/x/a.md"),
        ("[o](../birds/owl.md)", "memory/birds/owl.md"),
        ("[o](../birds/../birds/owl.md#Food)", "memory/birds/owl.md"),
        ("[o](../../skill/deploy/SKILL.md)", "skill/deploy/SKILL.md"),
        ("[o](../caf%C3%A9.md)", "memory/caf\u00e9.md"),
    ],
)
def test_a_link_finds_its_file(link: str, target: str) -> None:
    owl = "memory/birds/owl.md|---\nname: The Owl\naliases: [Strix aluco]\n---\n"
    others = (owl, "memory/caf\u00e9.md|", "skill/deploy/SKILL.md|", "resource/guide.md|")
    assert resolved("memory/x/a.md", link, *others) == [target]


def test_a_link_prefers_its_own_track_and_names_to_aliases() -> None:
    assert resolved("skill/a.md", "[[x]]", "memory/x.md|", "skill/x.md|") == ["skill/x.md"]
    assert resolved("memory/a.md", "[[x]]", "memory/b.md|---\naliases: [x]\n---\n", "skill/y/x.md|") == ["skill/y/x.md"]
    assert resolved("memory/a.md", "[[x]]", "memory/x.md|", "memory/y/x.md|") == ["memory/x.md"]


def test_links_that_lead_nowhere_are_told_apart() -> None:
    found = mapped({"memory/a.md": "[[b]] [[c]]\n[d](d.md) [b](b.md) [up](/b.md)", "memory/b.md": ""})
    assert [(link.target, link.line) for link in found.dangling["memory/a.md"]] == [("c", 1), ("d.md", 2), ("/b.md", 2)]
    assert list(found.dangling) == ["memory/a.md"]


def test_back_links_name_each_source_once_and_never_the_file_itself() -> None:
    found = mapped({"memory/a.md": "[[b]] ![[b]] [b](b.md)", "memory/b.md": "[[b]] [[#x]]", "memory/c.md": "[[b]]"})
    assert found.back_links == {"memory/b.md": ("memory/a.md", "memory/c.md")}


ENDLESS = ["`", "``` ` ", "[", "[[", "[[a", "[[a|", "[[#", "![[", "[](", "[](a.md", "[](a.md#", ".md#", "](.md#"]
ENDLESS += ['](a.md "', "|", "> ", "- ", "* ", "<", "\\", "[a]: "]


@pytest.mark.parametrize("piece", ENDLESS)
def test_a_line_of_200_kilobytes_takes_no_time(piece: str) -> None:
    started = time.perf_counter()
    find_links(read("[](" + piece * (200_000 // len(piece))))
    find_links(read(piece * (200_000 // len(piece))))
    assert time.perf_counter() - started < 5


def test_backticks_of_every_length_take_no_time() -> None:
    started = time.perf_counter()
    find_links(read("[" + "a".join("`" * length for length in range(1, 630))))
    assert time.perf_counter() - started < 5
