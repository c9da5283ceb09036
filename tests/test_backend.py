"""The protocol's arguments are checked before anything is read."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memu_fs.backend import (
    MAX_QUERY_CHARS,
    BadCursorError,
    EmptyQueryError,
    Filter,
    LimitError,
    LongQueryError,
    MissingScopeError,
    UnknownFieldError,
    check_limit,
    check_query,
    decode_cursor,
    encode_cursor,
    read_filter,
)
from memu_fs.errors import UsageError
from memu_fs.scope import EVERYTHING, Scope

TEXT = st.text(max_size=20)


@given(key=st.tuples(TEXT, TEXT, TEXT))
def test_a_cursor_comes_back(key: tuple[str, str, str]) -> None:
    cursor = encode_cursor(key)
    assert decode_cursor(cursor) == key
    assert cursor.isascii()
    assert not set(cursor) & set("+/= ")


def cursor_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    ["x", "é", "!!!!", *map(cursor_of, ["[]", '["a","b"]', "[1,2,3]", "{}", "[" * 100_000])],
    ids=lambda cursor: cursor[:12],
)
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursorError):
        decode_cursor(cursor)


@given(cursor=TEXT)
def test_any_text_is_a_cursor_or_refused(cursor: str) -> None:
    with contextlib.suppress(BadCursorError):
        assert len(decode_cursor(cursor)) == 3


ALL_TRACKS = ("memory", "skill", "workspace")


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"scope": "all"}, Filter(EVERYTHING, ALL_TRACKS)),
        ({"scope": "shared", "track": None}, Filter(Scope(), ALL_TRACKS)),
        ({"scope": Scope(), "track": "resource"}, Filter(Scope(), ("workspace",))),
        ({"scope": ["project:x", "agent:y"], "track": ["skill", "skill"]}, Filter(Scope("x", "y"), ("skill",))),
        ({"scope": "all", "include_inactive": True}, Filter(EVERYTHING, ALL_TRACKS, True)),
    ],
)
def test_a_filter_is_read(where: dict[str, object], found: Filter) -> None:
    assert read_filter(where) == found


@pytest.mark.parametrize(
    "where", [{}, {"scope": None}, {"scope": ""}, {"scope": []}, {"scope": ()}, {"track": "skill"}]
)
def test_a_read_without_a_scope_is_refused(where: dict[str, object]) -> None:
    with pytest.raises(MissingScopeError):
        read_filter(where)


@pytest.mark.parametrize(
    "where",
    [
        {"scope": "all", "tracks": "skill"},
        {"scope": "all", "user_id": "x"},
        {"scope": "all", 1: 2},
    ],
)
def test_an_unknown_field_is_refused_by_name(where: dict[str, object]) -> None:
    with pytest.raises(UnknownFieldError):
        read_filter(where)


@pytest.mark.parametrize(
    "where",
    [
        {"scope": 7},
        {"scope": [7]},
        {"scope": "everything"},
        {"scope": "all", "track": "notes"},
        {"scope": "all", "track": []},
        {"scope": "all", "track": ""},
        {"scope": "all", "track": {"skill": 1}},
        {"scope": "all", "include_inactive": "yes"},
    ],
)
def test_a_value_that_means_nothing_is_never_widened(where: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        read_filter(where)


def test_a_query_is_tidied_and_never_empty_or_endless() -> None:
    assert check_query("  a\0b\ud800 ") == "a b?"
    for empty in ("", "  \n", "\0"):
        with pytest.raises(EmptyQueryError):
            check_query(empty)
    with pytest.raises(LongQueryError):
        check_query("x" * (MAX_QUERY_CHARS + 1))


def test_a_limit_lies_between_one_and_the_most() -> None:
    assert (check_limit(1, 5), check_limit(5, 5)) == (1, 5)
    for limit in (0, -1, 6):
        with pytest.raises(LimitError, match="give 1 to 5"):
            check_limit(limit, 5)
