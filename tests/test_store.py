"""A file of the store is only ever replaced whole, and only if it still holds what the writer last read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memu_fs.digests import digest_bytes, digest_parts
from memu_fs.names import BadNameError
from memu_fs.store import (
    MAX_FILE_BYTES,
    AmbiguousNameError,
    FileChangedError,
    FileNotWrittenError,
    NoSuchFileError,
    NotAStoreError,
    PrivateFolderError,
    Store,
    UnreadableFileError,
    make_private,
    new_path,
)

if TYPE_CHECKING:
    from conftest import MakeStore


def listing(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_folder_without_tracks_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="memu-fs init"):
        Store(tmp_path)


def test_a_marker_alone_makes_a_store(tmp_path: Path) -> None:
    (tmp_path / ".memu-fs.toml").write_text("format = 1\n")
    assert Store(tmp_path).walk().entries == ()


@pytest.mark.parametrize(
    "reference",
    [
        "memory/ops/d\u00e9ploy",
        "memory/ops/de\u0301ploy",
        "memory/ops/d\u00e9ploy.md",
        "ops/d\u00e9ploy",
        "ops/de\u0301ploy.md",
        "d\u00e9ploy",
        "/memory/ops/d\u00e9ploy/",
    ],
)
def test_a_file_is_found_in_many_ways(store: MakeStore, reference: str) -> None:
    made = store({"memory/ops/d\u00e9ploy.md": "x", "skill/other.md": "y"})
    assert made.find(reference).path == "memory/ops/d\u00e9ploy.md"


def test_a_file_with_a_decomposed_name_is_found_by_either_spelling(store: MakeStore) -> None:
    made = store({"memory/cafe\u0301.md": "x"})
    assert made.find("caf\u00e9").path == made.find("memory/cafe\u0301.md").path == "memory/cafe\u0301.md"


def test_resources_are_found_by_folder_and_by_track(store: MakeStore) -> None:
    made = store({"resource/guide.md": "x"})
    assert made.find("resource/guide") == made.find("workspace/guide") == made.find("guide")


def test_a_part_of_a_skill_leads_to_the_skill(store: MakeStore) -> None:
    made = store({"skill/x/SKILL.md": "x", "skill/x/ref/more.md": "y"})
    assert made.find("skill/x/ref/more.md").name == "x"


def test_a_name_of_several_files_is_asked_back(store: MakeStore) -> None:
    made = store({"memory/deploy.md": "x", "skill/deploy.md": "y", "memory/a/lint.md": "z", "memory/b/lint.md": "z"})
    with pytest.raises(AmbiguousNameError, match=r"memory/deploy\.md, skill/deploy\.md"):
        made.find("deploy")
    with pytest.raises(AmbiguousNameError, match=r"memory/a/lint\.md, memory/b/lint\.md"):
        made.find("lint")
    assert made.find("skill/deploy").track == "skill"


def test_a_full_name_goes_before_the_end_of_another(store: MakeStore) -> None:
    assert store({"memory/lint.md": "x", "memory/a/lint.md": "y"}).find("lint").path == "memory/lint.md"


def test_what_is_not_visible_is_not_found(store: MakeStore) -> None:
    made = store({"memory/a.md": "x", "skill/a.md": "x"})
    assert made.find("a", visible=lambda entry: entry.track == "skill").track == "skill"
    for reference in ("b", "", "memory/", "../a"):
        with pytest.raises(NoSuchFileError, match="memu-fs list"):
            made.find(reference)


def test_a_page_holds_the_parts_of_a_skill(store: MakeStore) -> None:
    made = store({"skill/x/SKILL.md": "main", "skill/x/b.md": b"\xff", "skill/x/a.md": "part"})
    page = made.read(made.find("x"))
    assert next(part.raw_body for part in page.others) == "part"
    assert page.digest == digest_parts(
        [
            (f"skill/x/{name}.md", digest_bytes(data))
            for name, data in {"SKILL": b"main", "a": b"part", "b": b"\xff"}.items()
        ]
    )
    assert [problem.path for problem in page.problems] == ["skill/x/b.md"]
    (made.root / "skill/x/a.md").unlink()
    (made.root / "skill/x/a.md").mkdir()
    entry = made.find("x")
    assert made.read(entry).digest != page.digest


def test_a_part_that_vanished_is_a_problem_and_the_main_file_an_error(store: MakeStore) -> None:
    made = store({"skill/x/SKILL.md": "main", "skill/x/a.md": "part"})
    entry = made.find("x")
    (made.root / "skill/x/a.md").unlink()
    assert [problem.rule for problem in made.read(entry).problems] == ["unreadable"]
    (made.root / "skill/x/SKILL.md").unlink()
    with pytest.raises(UnreadableFileError, match="No such file"):
        made.read(entry)


def test_a_file_over_the_limit_is_refused_in_a_sentence(store: MakeStore) -> None:
    made = store({"memory/big.md": b"x" * (MAX_FILE_BYTES + 1), "memory/fits.md": b"x" * MAX_FILE_BYTES})
    with pytest.raises(UnreadableFileError) as caught:
        made.read(made.find("big"))
    assert str(caught.value) == "memory/big.md cannot be read: it is larger than 16 MB."
    assert len(made.read_bytes("memory/fits.md")) == MAX_FILE_BYTES


def test_a_write_gives_the_new_digest(store: MakeStore) -> None:
    made = store()
    first = made.write("memory/new/a.md", b"one", expected=None)
    assert first == digest_bytes(b"one")
    assert made.write("memory/new/a.md", b"two", expected=first) == digest_bytes(b"two")
    assert listing(made.root) == {"memory/new/a.md": b"two"}


@pytest.mark.parametrize("expected", [None, digest_bytes(b"older")])
def test_a_file_that_holds_something_else_is_left_alone(store: MakeStore, expected: str | None) -> None:
    made = store({"memory/a.md": "mine"})
    with pytest.raises(FileChangedError, match="Read it again"):
        made.write("memory/a.md", b"yours", expected=expected)
    assert listing(made.root) == {"memory/a.md": b"mine"}


def test_a_file_that_is_gone_is_not_made_again(store: MakeStore) -> None:
    made = store()
    with pytest.raises(FileChangedError):
        made.write("memory/a.md", b"x", expected=digest_bytes(b"y"))
    assert listing(made.root) == {}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_keeps_its_mode(store: MakeStore, mode: int) -> None:
    made = store({"memory/a.md": "one"})
    (made.root / "memory/a.md").chmod(mode)
    made.write("memory/a.md", b"two", expected=digest_bytes(b"one"))
    assert stat.S_IMODE((made.root / "memory/a.md").stat().st_mode) == mode


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_gets_the_mode_of_new_files(store: MakeStore, umask: int, mode: int) -> None:
    made = store()
    before = os.umask(umask)
    try:
        made.write("memory/a.md", b"x", expected=None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((made.root / "memory/a.md").stat().st_mode) == mode


@pytest.mark.parametrize("target", ["../outside.md", ".git/config.md", "README.md", ".memu/x.md"])
def test_nothing_is_written_through_a_link_out_of_the_tracks(store: MakeStore, target: str) -> None:
    made = store({target: "mine"})
    (made.root / "memory/a.md").symlink_to(made.root / target)
    (made.root / "memory/folder").symlink_to((made.root / target).parent)
    for path in ("memory/a.md", f"memory/folder/{Path(target).name}"):
        with pytest.raises(FileNotWrittenError, match="outside the store"):
            made.write(path, b"yours", expected=digest_bytes(b"mine"))
    assert (made.root / target).read_bytes() == b"mine"


def test_nothing_is_written_to_a_path_that_climbs_out(store: MakeStore) -> None:
    made = store()
    for path in ("memory/../../x.md", "memory/../.git/x.md", "memory/.hidden.md"):
        with pytest.raises(FileNotWrittenError):
            made.write(path, b"x", expected=None)
    assert not (made.root.parent / "x.md").exists()
    assert listing(made.root) == {}


def test_a_write_through_a_link_inside_keeps_the_link(store: MakeStore) -> None:
    made = store({"memory/a.md": "one"})
    (made.root / "memory/b.md").symlink_to("a.md")
    made.write("memory/b.md", b"two", expected=digest_bytes(b"one"))
    assert (made.root / "memory/b.md").is_symlink()
    assert (made.root / "memory/a.md").read_bytes() == b"two"


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "cannot be written to"),
        (errno.EACCES, "cannot be written to"),
        (errno.EIO, "Input/output error"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "fdopen"])
def test_a_failing_disk_leaves_the_old_file(
    store: MakeStore, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str, call: str
) -> None:
    made = store({"memory/a.md": "old"})

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(FileNotWrittenError, match=sentence):
        made.write("memory/a.md", b"new", expected=digest_bytes(b"old"))
    assert listing(made.root) == {"memory/a.md": b"old"}


def test_a_file_or_folder_in_the_way_is_a_sentence(store: MakeStore) -> None:
    made = store({"memory/a": "x", "memory/b.md/c.md": "x"})
    for path in ("memory/a/x.md", "memory/b.md", "memory/" + "/".join(["d" * 200] * 30) + ".md"):
        with pytest.raises(FileNotWrittenError, match="Nothing was changed"):
            made.write(path, b"x", expected=None)


def test_the_private_folder_is_hidden_from_git_and_from_others(store: MakeStore) -> None:
    made = store()
    private = make_private(made.root)
    assert (private / ".gitignore").read_bytes() == b"*\n"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert make_private(made.root) == private


def test_the_private_folder_is_never_somewhere_else(store: MakeStore, tmp_path: Path) -> None:
    made = store()
    (tmp_path / "elsewhere").mkdir()
    (made.root / ".memu").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PrivateFolderError, match="index_location"):
        make_private(made.root)
    assert listing(tmp_path / "elsewhere") == {}


def test_tombstones_name_what_was_forgotten(store: MakeStore) -> None:
    made = store({".tombstones/memory/a%3Ab.md": "x", ".tombstones/skill/x.md": "x", ".tombstones/odd/y.md": "x"})
    assert made.tombstones() == {("memory", "a:b"), ("skill", "x")}
    assert store(folder="none").tombstones() == frozenset()


def test_a_new_reference_gets_a_path(store: MakeStore) -> None:
    assert new_path("resource/a:b") == ("workspace", "a:b", "resource/a%3Ab.md")
    with pytest.raises(BadNameError):
        new_path("memory/../x")


def test_ids_depend_on_the_store_the_track_and_the_name_alone(store: MakeStore) -> None:
    one, two = store(), store(folder="two")
    (two.root / ".memu-fs.toml").write_text('id = "6f1c1d1e-0000-4000-8000-000000000001"\n')
    assert one.id_of("memory", "a") != one.id_of("skill", "a") != one.id_of("memory", "b")
    assert one.id_of("memory", "a") != two.id_of("memory", "a")


def test_a_path_typed_from_elsewhere_finds_its_file(store: MakeStore) -> None:
    made = store({"memory/a.md": "text"})
    for reference in ("./memory/a.md", str(made.root / "memory" / "a.md")):
        assert made.find(reference).name == "a"
