"""Front matter is read safely, whatever it holds, and changed line by line."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memu_fs import front_matter
from memu_fs.front_matter import FrontMatterProblem, line_of, load, repeated_keys, set_key, split

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{after}: &{after} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


def mix(pieces: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=40).map("".join)


def problem_of(text: str) -> FrontMatterProblem:
    started = time.perf_counter()
    with pytest.raises(FrontMatterProblem) as caught:
        load(text)
    assert time.perf_counter() - started < 5
    return caught.value


@given(text=mix([*"-a: \n\r\t\ufeff", "---", "---\n"]))
def test_splitting_loses_nothing(text: str) -> None:
    parts = split(text)
    assert parts.bom + parts.header + parts.body == text
    assert parts.yaml in parts.header


def values_or_line(text: str) -> tuple[dict[str, object], int]:
    try:
        return load(text), 1
    except FrontMatterProblem as problem:
        return {}, problem.line


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(newline: str, bom: str) -> None:
    parts = split(bom + newline.join(["---", "name: x", "---", "body", ""]))
    assert (parts.bom, load(parts.yaml), parts.body) == (bom, {"name": "x"}, f"body{newline}")


@pytest.mark.parametrize(
    ("text", "header", "unclosed"),
    [
        ("", "", False),
        ("---", "", False),
        ("---\nname: x\n", "", True),
        ("---\nname: x\n---", "---\nname: x\n---", False),
        ("---  \nname: x\n--- \nbody", "---  \nname: x\n--- \n", False),
        ("---\n---\n", "---\n---\n", False),
        ("text\n---\nname: x\n---\n", "", False),
        ("\n---\nname: x\n---\n", "", False),
        ("----\nname: x\n----\n", "", False),
        ("---\nname: x\n  ---\n", "", True),
    ],
)
def test_front_matter_starts_on_the_first_line_and_must_close(text: str, header: str, unclosed: bool) -> None:
    parts = split(text)
    assert (parts.header, parts.unclosed) == (header, unclosed)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("name: x\nbad: [1, 2\nmore: y\n", 4, "not valid YAML"),
        ("name: x\n\ttags: [a]\n", 3, "not valid YAML"),
        ("- a\n- b\n", 2, "is a list, not a mapping"),
        ("just text\n", 2, "is a single value"),
        ("é: é\nname: \x01\n", 3, "not valid YAML"),
        ("a: 1\n---\nb: 2\n", 3, "not valid YAML"),
        ("name: !!python/object:os.system x\n", 2, "not valid YAML"),
        ("a: 1\nname: !mine x\n", 3, "not valid YAML"),
        ("? [a, b]\n: x\n", 2, "not valid YAML"),
        ("a: 1\nb: {<<: {c: 1}}\n", 3, "merge key"),
        ("a: " + "[" * 20 + "]" * 20, 2, "nested too deeply"),
        ("a:\n" + "".join("  " * depth + "b:\n" for depth in range(1, 20)), 14, "nested too deeply"),
    ],
)
def test_a_problem_says_the_line_and_the_reason(text: str, line: int, reason: str) -> None:
    problem = problem_of(text)
    assert problem.line == line
    assert reason in problem.reason


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        MERGES,
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
        "a: &a {<<: *a}\n",
        "a: " + "[" * 10_000,
        "a: " + "{" * 10_000,
        "a:\n  " + "- " * 30_000,
        "? " * 30_000,
        "a: " + "&a " * 20_000,
        "x" * 70_000,
        "a: [" + "x, " * 6_000 + "]",
        "a: '" + "''" * 30_000,
        "\n".join(f"k{number}: [" for number in range(5_000)),
    ],
    ids=lambda text: text[:12],
)
def test_what_was_made_to_hurt_is_refused_quickly(text: str) -> None:
    problem_of(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-05-31", "2026-05-31"),
        ("2026-02-30", "2026-02-30"),
        ("2026-05-31 10:00:00", "2026-05-31T10:00:00"),
        ("2026-05-31T25:61:00Z", "2026-05-31T25:61:00Z"),
        ("1234", 1234),
        ("0x" + "f" * 5_000, "0x" + "f" * 5_000),
        ("9" * 5_000, "9" * 5_000),
        ("0o9", "0o9"),
        (".inf", "inf"),
        (".nan", "nan"),
        ("~", None),
        ("yes", True),
        ("!!binary aGk=", "b'hi'"),
        ("!!set {a, b}", ["a", "b"]),
        ("!!int abc", "abc"),
        ("[1, {b: 2026-05-31}]", [1, {"b": "2026-05-31"}]),
        ("'[[wiki]]'", "[[wiki]]"),
    ],
    ids=lambda value: str(value)[:16],
)
def test_values_become_what_json_can_hold(text: str, value: object) -> None:
    loaded = load(f"key: {text}\n")["key"]
    assert sorted(loaded) if text.startswith("!!set") and isinstance(loaded, list) else loaded == value
    json.dumps(loaded, allow_nan=False)


def test_keys_are_always_texts() -> None:
    assert load("2: a\ntrue: b\n2026-05-31: c\n~: d\n") == {"2": "a", "True": "b", "2026-05-31": "c", "None": "d"}


def test_a_long_value_of_sixties_is_read_quickly() -> None:
    started = time.perf_counter()
    load("a: 1" + ":1" * 20_000)
    assert time.perf_counter() - started < 5


@given(text=mix([*"a:-[]{}&*!|>'\"%@`#?, \n\t0<", "<<: ", "- ", "a: ", "&a ", "*a"]))
def test_loading_gives_plain_values_or_one_problem(text: str) -> None:
    values, line = values_or_line(text)
    json.dumps(values, allow_nan=False)
    assert 1 <= line <= text.count("\n") + 3


@given(value=TEXTS)
def test_a_key_that_was_set_is_read_back(value: str) -> None:
    header = set_key("---\nname: x\nstatus: old\ntags: [a]\n---\n", "status", value)
    assert load(split(header).yaml) == {"name": "x", "status": value, "tags": ["a"]}


@given(value=TEXTS)
def test_dumped_values_are_read_back(value: str) -> None:
    assert load(split(front_matter.dump({"name": value, "tags": [value]})).yaml) == {"name": value, "tags": [value]}


def test_setting_a_key_leaves_every_other_line_alone() -> None:
    lines = [
        "---",
        "# mine",
        "name:   'x'   # why",
        "status: active  # since May",
        "",
        "tags:",
        "- a",
        "odd :  1",
        "---",
    ]
    header = "\r\n".join([*lines, "---", ""])
    changed = set_key(header, "status", "disputed", "\r\n")
    assert changed == header.replace("status: active  # since May", "status: disputed  # since May")
    assert set_key(changed, "status", "active", "\r\n") == header


@pytest.mark.parametrize(
    ("value", "rest"),
    [
        ("|\n  one\n\n  # two\n\n  three\n", ""),
        (">-\n  one\n  two\n", ""),
        ('"one\n  two\n\n  three"\n', ""),
        ("one\n  two\n", ""),
        ("[a,\n  b]\n", ""),
        ("\n- a\n- b\n", ""),
        ("\n  - a\n\n  - b\n", ""),
        ("one\n", "\n# about the next\n"),
        ("one\n", "  # indented\n"),
    ],
)
def test_the_whole_old_value_makes_room(value: str, rest: str) -> None:
    header = f"---\nname: x\ndescription: {value}{rest}tags: [a]\n---\n"
    assert set_key(header, "description", "new") == f"---\nname: x\ndescription: new\n{rest}tags: [a]\n---\n"


def test_a_new_key_is_put_last_and_a_missing_front_matter_is_made() -> None:
    assert set_key("---\nname: x\n---", "status", "retired") == "---\nname: x\nstatus: retired\n---"
    assert set_key("", "status", "retired", "\r\n") == "---\r\nstatus: retired\r\n---\r\n"
    assert set_key("---\n---\n", "status", "retired") == "---\nstatus: retired\n---\n"


def test_a_quoted_key_is_the_same_key() -> None:
    assert set_key('---\n"status": a\n---\n', "status", "b") == "---\nstatus: b\n---\n"


def test_of_a_key_given_twice_the_last_is_meant() -> None:
    header = "---\nstatus: a\nname: x\nstatus: b\n---\n"
    assert repeated_keys(header) == [(4, "status")]
    assert line_of(header, "status") == 4
    assert load(split(set_key(header, "status", "c")).yaml)["status"] == "c"
