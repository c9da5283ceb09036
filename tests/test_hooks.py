from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memu_fs.backend import MAX_QUERY_CHARS
from memu_fs.hooks import HOSTS, HookInput, HookInputError, UnknownHookError, read_hook, write_hook

CWD = str(Path("/work/app").absolute())
PROMPT = {
    "session_id": "s-1",
    "transcript_path": "/x.jsonl",
    "cwd": CWD,
    "permission_mode": "default",
    "hook_event_name": "UserPromptSubmit",
    "prompt": "How do we deploy?",
}


def encode(values: object) -> bytes:
    return json.dumps(values).encode()


def test_a_prompt_of_claude_code_is_a_query() -> None:
    found = read_hook("claude-code", encode(PROMPT))
    assert found == HookInput("How do we deploy?", Path(CWD), "s-1", "prompt")


def test_a_session_start_of_claude_code_has_no_query() -> None:
    told = {"session_id": "s-1", "cwd": CWD, "hook_event_name": "SessionStart", "source": "compact"}
    assert read_hook("claude-code", encode(told)) == HookInput("", Path(CWD), "s-1", "session-start")


def test_a_generic_hook_needs_no_session() -> None:
    assert read_hook("generic", encode({"query": "q", "cwd": CWD})) == HookInput("q", Path(CWD), None, "prompt")
    assert read_hook("generic", encode({"query": "q", "cwd": CWD, "session": "s", "new": [1]})).session == "s"


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": None},
        {"prompt": 7},
        {"prompt": ["text"]},
        {"cwd": None},
        {"cwd": ""},
        {"cwd": "app"},
        {"cwd": CWD + "\0"},
        {"session_id": 12},
        {"hook_event_name": "PreToolUse"},
        {"hook_event_name": None},
        {"hook_event_name": {}},
    ],
)
def test_a_field_of_another_type_is_refused_by_name(change: dict[str, object]) -> None:
    with pytest.raises(HookInputError, match=next(iter(change))):
        read_hook("claude-code", encode({**PROMPT, **change}))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe{}", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    for host in HOSTS:
        with pytest.raises(HookInputError, match=f"{host} hook cannot be used: it is not"):
            read_hook(host, data)


@given(data=st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(encode))
def test_any_bytes_are_read_or_refused_with_one_error(data: bytes) -> None:
    with pytest.raises(HookInputError):
        read_hook("generic", data)


def test_a_byte_order_mark_and_half_a_surrogate_pair_do_no_harm() -> None:
    data = b"\xef\xbb\xbf" + encode({**PROMPT, "prompt": "a\ud800b"})
    assert read_hook("claude-code", data).query == "a?b"


def test_a_pasted_page_is_cut_to_what_can_be_asked() -> None:
    assert len(read_hook("claude-code", encode({**PROMPT, "prompt": "x" * 1_000_000})).query) == MAX_QUERY_CHARS


def test_context_goes_where_claude_code_reads_it() -> None:
    assert json.loads(write_hook("claude-code", "prompt", "> text")) == {
        "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "> text"}
    }
    assert json.loads(write_hook("claude-code", "session-start", "> text")) == {
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "> text"}
    }


def test_context_of_a_generic_hook_is_one_field() -> None:
    assert json.loads(write_hook("generic", "prompt", 'é "\n\u2028')) == {"context": 'é "\n\u2028'}


def test_output_is_one_line_of_ascii_whatever_the_text() -> None:
    written = write_hook("claude-code", "prompt", "> naïve\n> 漢字\u2028")
    assert written.isascii()
    assert len(written.splitlines()) == 1


def test_no_context_is_no_output() -> None:
    assert [write_hook(host, "prompt", "") for host in HOSTS] == [""] * len(HOSTS)


def test_what_claude_code_cannot_take_is_cut_after_a_line() -> None:
    written = json.loads(write_hook("claude-code", "prompt", "> 0123456789\n" * 2_000))
    context = written["hookSpecificOutput"]["additionalContext"]
    assert 8_900 < len(context) <= 9_000
    assert set(context.split("\n")) == {"> 0123456789", "..."}


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(UnknownHookError, match="use claude-code, generic"):
        read_hook("emacs", b"{}")
    with pytest.raises(UnknownHookError):
        write_hook("emacs", "prompt", "")


def test_every_row_can_answer_each_event_that_it_names() -> None:
    for host in HOSTS.values():
        for name, event in host.events.items():
            assert name in write_hook(host.name, event, "text")
