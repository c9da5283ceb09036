"""What changed is a pure function of two listings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memu_fs.changes import Added, Edited, Removed, diff

LISTINGS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"))


def test_each_kind_of_change_is_told() -> None:
    changes = list(diff({"a": "1", "b": "2", "d": "4"}, {"b": "1", "c": "3", "d": "4"}))
    assert changes == [Added("a"), Edited("b"), Removed("c")]


@given(files=LISTINGS, indexed=LISTINGS)
def test_applying_the_changes_makes_the_index_level(files: dict[str, str], indexed: dict[str, str]) -> None:
    level = dict(indexed)
    for change in diff(files, indexed):
        if isinstance(change, Removed):
            del level[change.path]
        else:
            assert (change.path in level) is isinstance(change, Edited)
            level[change.path] = files[change.path]
    assert level == files
    assert list(diff(files, level)) == []
