"""The mapping between names and paths loses nothing and refuses what it cannot keep."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memu_fs.errors import UsageError
from memu_fs.names import (
    MAX_PART_BYTES,
    BadNameError,
    collision_key,
    decode_part,
    encode_name,
    identity_of,
    path_for,
    split_reference,
)

AWKWARD = st.sampled_from(
    [*'<>:"|?*\\%. \x00\x1f\x7f\x85', "%41", "%2F", "%2e", "con", "SKILL", "\u0301", "\u0338", "é"]
)
PARTS = st.lists(st.one_of(AWKWARD, st.characters(exclude_categories=["Cs"])), min_size=1, max_size=12).map("".join)
NAMES = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
TRACK_NAMES = st.sampled_from(["memory", "skill", "workspace"])


def path_or_reject(track: str, name: str) -> str:
    try:
        return path_for(track, name)
    except BadNameError:
        assume(False)
        raise


@given(track=TRACK_NAMES, name=NAMES)
def test_a_name_comes_back_from_its_path(track: str, name: str) -> None:
    assert identity_of(path_or_reject(track, name)) == (track, unicodedata.normalize("NFC", name))


@given(track=TRACK_NAMES, name=NAMES)
def test_a_path_survives_systems_that_change_its_normal_form(track: str, name: str) -> None:
    path = path_or_reject(track, name)
    assert unicodedata.normalize("NFC", path) == path
    assert identity_of(unicodedata.normalize("NFD", path)) == identity_of(path)


@given(track=TRACK_NAMES, name=NAMES)
def test_a_path_holds_nothing_that_some_system_refuses(track: str, name: str) -> None:
    for part in path_or_reject(track, name).split("/"):
        assert not set(part) & set('<>:"|?*\\')
        assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in part)
        assert not part.startswith(".")
        assert not part.endswith((".", " "))
        assert part.split(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt1"}


@given(parts=st.lists(PARTS.filter(lambda part: "/" not in part and part[0] != "."), min_size=1, max_size=3))
def test_the_name_of_any_file_on_disk_can_be_used(parts: list[str]) -> None:
    identity = identity_of("memory/" + "/".join(parts) + ".md")
    assert identity_of(path_for(*identity)) == identity


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ops/deploy", "memory/ops/deploy.md"),
        ("a:b", "memory/a%3Ab.md"),
        ("100%", "memory/100%.md"),
        ("100%41", "memory/100%2541.md"),
        ("100%4g", "memory/100%4g.md"),
        ("con", "memory/%63on.md"),
        ("CON.txt", "memory/%43ON.txt.md"),
        ("Lpt9/x", "memory/%4Cpt9/x.md"),
        ("CONIN$", "memory/%43ONIN$.md"),
        ("console", "memory/console.md"),
        (".hidden", "memory/%2Ehidden.md"),
        ("end.", "memory/end%2E.md"),
        ("end /x", "memory/end%20/x.md"),
        ("two  words", "memory/two  words.md"),
        ("caf\u0065\u0301", "memory/caf\u00e9.md"),
        ("{", "memory/{.md"),
        ("🦉", "memory/🦉.md"),
        ("a\nb", "memory/a%0Ab.md"),
        (":\u0301", "memory/%3A%CC%81.md"),
    ],
)
def test_known_names_have_known_paths(name: str, path: str) -> None:
    assert path_for("memory", name) == path
    assert identity_of(path) == ("memory", unicodedata.normalize("NFC", name))


@pytest.mark.parametrize("name", ["x/SKILL", "x/skill", "x/SkiLL", "SKILL", "a/b/SKILL", "SKILL/x"])
def test_a_part_named_like_the_file_of_a_skill_stays_a_name(name: str) -> None:
    path = path_for("skill", name)
    assert not (path.endswith("/SKILL.md") and path.count("/") > 1)
    assert identity_of(path) == ("skill", name)


def test_the_file_of_a_skill_is_named_after_its_folder() -> None:
    assert identity_of("skill/ops/deploy/SKILL.md") == ("skill", "ops/deploy")
    assert identity_of("memory/deploy/SKILL.md") == ("memory", "deploy/SKILL")
    assert identity_of("skill/SKILL.md") == ("skill", "SKILL")


@pytest.mark.parametrize("part", ["a%2Fb", "%2E%2E", "%2E", "%2Fetc", "a%3ab", "caf%C3%A9", "%FF", "%61"])
def test_what_the_mapping_never_writes_is_a_name_as_it_stands(part: str) -> None:
    assert decode_part(part) == part
    assert identity_of(path_for("memory", part)) == ("memory", part)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty part"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("/etc/passwd", "absolute"),
        (".", "'.'"),
        ("a/../b", "'..'"),
        ("../x", "'..'"),
        ("x\ud800", "not valid Unicode"),
        ("ok/" + "b" * 201, "'bbbbbbbbbbbbbbbbbbbb'... is longer than 200 bytes"),
        ("é" * 101, "longer than 200 bytes"),
        (":" * 67, "longer than 200 bytes"),
    ],
)
def test_a_refused_name_says_which_part(name: str, why: str) -> None:
    with pytest.raises(BadNameError) as caught:
        path_for("memory", name)
    assert why in str(caught.value)
    assert isinstance(caught.value, UsageError)


def test_a_refusal_is_one_short_sentence() -> None:
    with pytest.raises(BadNameError) as caught:
        path_for("memory", "x" * 1_000_000)
    assert len(str(caught.value)) < 300


def test_the_longest_part_fits() -> None:
    assert path_for("memory", "b" * MAX_PART_BYTES) == f"memory/{'b' * MAX_PART_BYTES}.md"


def test_an_unknown_track_is_refused() -> None:
    with pytest.raises(BadNameError, match="no track 'notes'"):
        path_for("notes", "x")


def test_a_reference_may_name_the_track_or_its_folder() -> None:
    assert split_reference("resource/x") == ("workspace", "x")
    assert split_reference("workspace/x/y") == ("workspace", "x/y")
    for bad in ("x", "memory", "memory/", "notes/x", ""):
        with pytest.raises(BadNameError, match="write it as memory/NAME"):
            split_reference(bad)


def test_names_that_some_system_confuses_share_a_key() -> None:
    assert collision_key("memory", "Stra\u00dfe") == collision_key("memory", "STRASSE")
    assert collision_key("memory", "re\u0301sume\u0301") == collision_key("memory", "R\u00c9SUM\u00c9")
    assert collision_key("memory", "a b") != collision_key("memory", "a-b")
    assert collision_key("memory", "x") != collision_key("skill", "x")


def test_the_folder_of_a_project_is_encoded_like_a_name() -> None:
    assert encode_name("github.com/acme/api") == "github.com/acme/api"
    assert encode_name("my:project") == "my%3Aproject"
    with pytest.raises(BadNameError):
        encode_name("../x")
