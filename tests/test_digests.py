"""Digests and ids are the same everywhere and for ever."""

from __future__ import annotations

from uuid import UUID

from memu_fs.digests import UNMARKED_STORE, digest_bytes, digest_parts, file_id, segment_id

STORE = UUID("6f1c1d1e-0000-4000-8000-000000000001")


def test_a_digest_is_that_of_the_raw_bytes() -> None:
    assert digest_bytes(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_bytes(b"a\r\n") != digest_bytes(b"a\n")


def test_a_digest_of_parts_knows_paths_and_order() -> None:
    one, two = ("a", digest_bytes(b"1")), ("b", digest_bytes(b"2"))
    digests = {digest_parts(parts) for parts in ([one, two], [two, one], [one], [("c", one[1]), two])}
    assert len(digests) == 4


def test_ids_never_change() -> None:
    of_file = file_id(STORE, "memory", "ops/deploy")
    assert of_file == "3030cb35-121a-5889-b684-b5d8d383f8f4"
    assert segment_id(of_file, "text", 0) == "cdd1764a-8f01-508e-bd64-0e9c5dbfcba1"
    assert str(UNMARKED_STORE) == "4e7b2e41-f523-56cf-ac12-961a7efe68bb"


def test_ids_differ_by_everything_they_are_made_of() -> None:
    of_file = file_id(STORE, "memory", "a")
    ids = {of_file, file_id(STORE, "skill", "a"), file_id(UNMARKED_STORE, "memory", "a"), file_id(STORE, "memory", "b")}
    assert len(ids) == 4
    assert len({segment_id(of_file, "a", 0), segment_id(of_file, "a", 1), segment_id(of_file, "b", 0)}) == 3
