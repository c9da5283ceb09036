"""Any bytes are a recall file: nothing is lost, nothing is slow, and what is wrong is said with its line."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memu_fs.recall_file import RecallFile, parse, render

PIECES = st.sampled_from(
    [
        b"---\n",
        b"---\r\n",
        b"\xef\xbb\xbf",
        b"name: x\n",
        b"tags: [a",
        b"\xff\xfe",
        b"\0",
        b"\r\n",
        b"# h\n",
        b"\xed\xa0\x80",
    ]
)
BYTES = st.one_of(
    st.binary(max_size=200), st.lists(st.one_of(PIECES, st.binary(max_size=6)), max_size=12).map(b"".join)
)


def read(text: str | bytes, path: str = "memory/a.md") -> RecallFile:
    return parse(path, text.encode() if isinstance(text, str) else text)


def problems(text: str | bytes) -> list[tuple[int, str]]:
    return [(problem.line, problem.rule) for problem in read(text).problems]


def everything_of(file: RecallFile) -> tuple[object, ...]:
    texts = (file.body, file.title, file.description, file.status, file.origin, file.valid_from, file.valid_until)
    return (*texts, file.superseded_by, file.tags, file.aliases, file.is_pinned, file.scope, file.conflict_of)


@given(data=BYTES)
@example(data=b"---\n---")
@example(data=b"\xef\xbb\xbf---\r\nname: \xff\r\n---\r\n\0")
def test_rendering_gives_back_the_bytes(data: bytes) -> None:
    file = read(data)
    assert render(file) == data
    for value in everything_of(file):
        str(value).encode()


@given(data=BYTES)
def test_lines_of_problems_lie_in_the_file(data: bytes) -> None:
    assert all(0 <= problem.line <= data.count(b"\n") + 2 for problem in read(data).problems)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_line_ends_and_marks_change_no_line_number(newline: str, bom: str) -> None:
    file = read(bom + newline.join(["---", "name: x", "status: good", "---", "", "Body"]))
    assert (file.title, file.body_line) == ("x", 5)
    assert [(problem.line, problem.rule) for problem in file.problems] == [(3, "front-matter-value")]
    assert file.body.split(newline) == ["", "Body"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\nname: x\nbad: [1\n---\nBody\n", 4),
        ("---\nname: x\n\ttags: [a]\n---\nBody\n", 3),
        ("---\n- a\n---\nBody\n", 2),
        ("---\nname: x\nBody\n", 1),
    ],
)
def test_malformed_front_matter_is_reported_and_the_body_read(text: str, line: int) -> None:
    file = read(text)
    assert problems(text) == [(line, "front-matter")]
    assert (file.title, file.description, file.status) == ("a", "", "active")
    assert "Body" in file.body


def test_bytes_that_are_not_utf_8_are_reported_where_they_are() -> None:
    file = read(b"one\ntw\xff\xfeo\n\0three\n")
    assert [(problem.line, problem.message) for problem in file.problems] == [
        (2, "not valid UTF-8 at byte 6; shown as U+FFFD"),
        (3, "holds a NUL byte; shown as U+FFFD"),
    ]
    assert file.body == "one\ntw\ufffd\ufffdo\n\ufffdthree\n"


def test_an_invalid_date_spoils_only_itself() -> None:
    file = read("---\nname: x\nvalid_from: 2026-02-30\nvalid_until: 2026-12-31\n---\n")
    assert (file.title, file.valid_from, file.valid_until) == ("x", "", "2026-12-31")
    assert problems("---\nname: x\nvalid_from: 2026-02-30\n---\n") == [(3, "front-matter-value")]


def test_values_of_the_wrong_kind_are_reported_and_left_out() -> None:
    text = "---\nname: [a]\ndescription: {a: b}\nstatus: 3.5\norigin: robot\ntags: 7\naliases: {a: b}\n---\n"
    assert problems(text) == [(line, "front-matter-value") for line in (2, 3, 4, 5)]
    file = read(text)
    assert (file.title, file.description, file.status, file.origin) == ("a", "", "active", "human")
    assert (file.tags, file.aliases) == ((), ())


def test_numbers_and_dates_are_names_too() -> None:
    assert read("---\nname: 42\n---\n").title == "42"
    assert read("---\nname: 2026-05-31\n---\n").title == "2026-05-31"
    assert read("---\nname: 0x" + "f" * 5000 + "\n---\n").title.startswith("0xf")


def test_a_key_given_twice_is_reported() -> None:
    text = "---\nstatus: retired\nname: x\nstatus: active\n---\n"
    assert problems(text) == [(4, "front-matter")]
    assert read(text).status == "active"


def test_statuses_and_origins_are_read_in_any_case() -> None:
    file = read("---\nstatus: Disputed\norigin: AGENT\n---\n")
    assert (file.status, file.origin, file.problems) == ("disputed", "agent", ())


def test_tags_and_aliases_are_read_as_obsidian_writes_them() -> None:
    file = read("---\ntags: '#a, b  c'\naliases: The Owl\n---\n")
    assert (file.tags, file.aliases) == (("a", "b", "c"), ("The Owl",))
    file = read("---\ntags:\n- '#a'\n- 2024\n-\naliases: [x, y z]\n---\n")
    assert (file.tags, file.aliases) == (("a", "2024"), ("x", "y z"))


def test_a_conflict_copy_knows_its_original() -> None:
    file = read("---\nstatus: active\n---\n", "memory/ops/x.conflict-0a1b2c.md")
    assert (file.conflict_of, file.status) == ("ops/x", "conflict")
    assert read("", "memory/x.conflict-notes.md").conflict_of is None


def test_a_successor_is_found_in_any_normal_form() -> None:
    assert read("---\nsuperseded_by: cafe\u0301\n---\n").superseded_by == "caf\u00e9"


def test_empty_files_and_lone_front_matter_are_fine() -> None:
    assert problems("") == []
    file = read("---\nname: x\ndescription: wifi\n---\n")
    assert (file.body, file.description, file.problems) == ("", "wifi", ())


@pytest.mark.parametrize(
    "text",
    [
        "---\n" + "a: [" * 10_000 + "\n---\nBody\n",
        "---\n" + "k: v\n" * 500_000 + "---\nBody\n",
        "---\n" * 200_000,
        "\ufeff" * 100_000,
        "[" * 200_000,
        "---\nname: " + "\\" * 60_000 + "\n---\nBody\n",
    ],
    ids=["brackets", "huge", "fences", "marks", "body", "backslashes"],
)
def test_nothing_is_slow(text: str) -> None:
    started = time.perf_counter()
    everything_of(read(text))
    assert time.perf_counter() - started < 5


def test_a_megabyte_of_bad_bytes_is_read_quickly() -> None:
    started = time.perf_counter()
    everything_of(read(b"\xff\0\n" * 400_000))
    assert time.perf_counter() - started < 5
