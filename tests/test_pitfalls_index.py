"""What broke for users of similar tools, as far as it concerns an index beside files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import lancedb
import pyarrow as pa
import pytest

from memu_fs.config import Config
from memu_fs.index import folders, lance_table
from memu_fs.index.base import Where
from memu_fs.index.embedder import EmbedderSettings, make_embedder
from memu_fs.index.lance import LanceIndex
from memu_fs.index.sidecar import Sidecar
from memu_fs.index.terms import analyse
from memu_fs.local import LocalMemory
from memu_fs.overview import folder_bytes
from memu_fs.store import Store

if TYPE_CHECKING:
    from conftest import MakeStore

HASHING = EmbedderSettings(embedder="hashing")
EVERYTHING = Where(None, ("memory", "skill", "workspace"))
ASK = [sys.executable, "-m", "memu_fs", "retrieve", "--scope", "all", "--json", "--store"]
OpenSidecar = Callable[..., Sidecar]


@pytest.fixture
def sidecar(store: MakeStore) -> OpenSidecar:
    """Open the index of a store of some files."""
    return lambda files=None, **where: Sidecar(store(files, **where), HASHING)


def memory(root: Path, **variables: str) -> LocalMemory:
    settings = {"MEMU_FS_EMBEDDER": "hashing"} | {f"MEMU_FS_{key.upper()}": text for key, text in variables.items()}
    return LocalMemory.open(root, config=Config(Path("config.toml"), {}, settings))


def opened(sidecar: Sidecar) -> LanceIndex:
    index = sidecar.index()
    assert isinstance(index, LanceIndex)
    return index


def table_of(sidecar: Sidecar) -> lancedb.table.Table:
    folder = folders.current_folder(sidecar.location)
    assert folder is not None
    return lancedb.connect(str(folder)).open_table(lance_table.NAME)


# LanceDB as a sidecar


def test_words_are_indexed_without_positions_and_maintenance_survives_long_words(sidecar: OpenSidecar) -> None:
    long = " ".join("x" * 64 + str(number) for number in range(300))
    made = sidecar({f"memory/{n}.md": f"Page {n}. {long}" for n in range(4)})
    made.update()
    for turn in range(60):
        (made.store.root / f"memory/{turn % 4}.md").write_text(f"Page {turn} again. {long}")
        made.update()
    indices = table_of(made).list_indices()
    assert [index.index_type for index in indices if index.columns == ["terms"]] == ["FTS"]
    assert len(opened(made).matching(analyse("page"), EVERYTHING, 100)) == 4


def test_a_column_whose_type_drifts_is_put_right_by_the_next_pass(sidecar: OpenSidecar) -> None:
    made = sidecar({"memory/owl.md": "Owls hunt."})
    made.update()
    table = table_of(made)
    expected, drift = table.schema, {"path": "line_start", "data_type": pa.int64()}
    table.alter_columns(drift)  # type: ignore[arg-type]
    assert table.schema != expected
    made.close()
    (made.store.root / "memory/wren.md").write_text("Wrens sing.")
    assert made.update().added == 1
    assert table_of(made).schema == expected
    assert opened(made).count() == table_of(made).count_rows() == 2


def test_a_deleted_index_comes_back_whole_in_one_pass(sidecar: OpenSidecar) -> None:
    made = sidecar({f"memory/{n}.md": f"Owl {n} hunts." for n in range(300)})
    made.update()
    made.close()
    shutil.rmtree(made.location)
    told: list[tuple[int, int]] = []
    report = made.update(progress=lambda done, total: told.append((done, total)))
    assert (report.added, report.segments, report.behind) == (300, 300, ())
    made.close()
    shutil.rmtree(made.store.private)
    made.update(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (300, 300)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_rebuild_that_ends_early_is_never_published(sidecar: OpenSidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sidecar({"memory/owl.md": "Owls hunt."})
    made.update()
    before = folders.current_folder(made.location)

    def fail(_: LanceIndex) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(LanceIndex, "maintain", fail)
    with pytest.raises(KeyboardInterrupt):
        made.rebuild()
    assert folders.current_folder(made.location) == before
    assert opened(made).count() == 1


def test_many_small_edits_leave_an_index_of_bounded_size(sidecar: OpenSidecar) -> None:
    made = sidecar({f"memory/{n}.md": f"Owl {n} hunts at night." for n in range(30)})
    made.update()
    fresh = folder_bytes(made.location)
    for turn in range(120):
        (made.store.root / f"memory/{turn % 30}.md").write_text(f"Owl {turn} rests by day.")
        made.update()
    assert folder_bytes(made.location) < 2 * fresh + 3_000_000
    assert opened(made).count() == 30


def test_two_writers_leave_one_segment_for_each_text(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")
    made = store({f"memory/{n}.md": f"Owl {n} hunts." for n in range(40)})
    both = [subprocess.Popen([*ASK, str(made.root), "owl"], stdout=subprocess.PIPE) for _ in range(2)]
    assert [(one.communicate()[0] != b"", one.returncode) for one in both] == [(True, 0)] * 2
    index = opened(Sidecar(made, HASHING))
    found = [hit.segment.id for hit in index.nearest(make_embedder(HASHING).embed_query("owl"), EVERYTHING, 1000)]
    assert len(found) == len(set(found)) == index.count() == len(index.files())


def test_a_reader_that_stays_open_follows_every_rebuild(sidecar: OpenSidecar) -> None:
    writer = sidecar({"memory/owl.md": "Owls hunt."})
    writer.update()
    reader = memory(writer.store.root, freshness_seconds="0")
    scores = []
    for word in ("Wrens", "Gulls", "Terns"):
        (writer.store.root / "memory/owl.md").write_text(f"{word} sing.")
        writer.rebuild()
        answer = reader.progressive_retrieve(f"{word} sing", {"scope": "all"})
        assert (answer["stale"], answer["segments"][0]["text"]) == (0, f"{word} sing.")
        scores.append(answer["segments"][0]["why"]["keyword"])
    assert len(set(scores)) == 1
    reader.close()


def test_a_pass_without_changes_writes_nothing_at_all(sidecar: OpenSidecar) -> None:
    made = sidecar({f"memory/{n}.md": f"Owl {n} hunts." for n in range(5)})
    for path in made.store.root.rglob("*.md"):
        os.utime(path, ns=(10**18, 10**18))
    made.update()
    version = table_of(made).version
    before = set(made.location.rglob("*.lance/**/*"))
    for _ in range(3):
        made.update()
        memory(made.store.root).progressive_retrieve("owl", {"scope": "all"})
    assert table_of(made).version == version
    assert set(made.location.rglob("*.lance/**/*")) == before


@pytest.mark.parametrize("name", ["a folder with spaces", "Überblick 計画", "x" * 120])
def test_the_store_may_lie_anywhere(sidecar: OpenSidecar, name: str) -> None:
    made = sidecar({"memory/owl.md": "Owls hunt."}, folder=name)
    made.update()
    made.close()
    assert opened(made).count() == 1
    assert (made.store.private / ".gitignore").read_text() == "*\n"


def test_the_index_holds_no_absolute_path_and_moves_with_the_store(sidecar: OpenSidecar, tmp_path: Path) -> None:
    made = sidecar({"memory/owl.md": "Owls hunt.", "memory/wren.md": "Wrens sing."})
    made.update()
    made.close()
    moved = made.store.root.rename(tmp_path / "elsewhere")
    report = Sidecar(Store(moved), HASHING).update()
    assert (report.changed, report.removed, report.embedded) == (0, 0, 0)


# Staying true to the files


def test_a_pass_touches_the_changed_file_alone(sidecar: OpenSidecar) -> None:
    made = sidecar({f"memory/{n}.md": f"Owl {n} hunts." for n in range(10)})
    made.update()
    index = opened(made)
    before = {path: index.segments(path) for path in index.files()}
    (made.store.root / "memory/3.md").write_text("Owl 3 rests.")
    made.update()
    after = {path: index.segments(path) for path in index.files()}
    assert {path for path in before if before[path] != after[path]} == {"memory/3.md"}


def test_a_file_with_fewer_segments_keeps_none_of_the_old(sidecar: OpenSidecar) -> None:
    parts = "\n\n".join(f"## Part {n}\n\n" + f"The owl of part {n} hunts. " * 50 for n in range(8))
    made = sidecar({"memory/owl.md": parts, "memory/wren.md": "Wrens sing."})
    made.update()
    before = opened(made).count()
    (made.store.root / "memory/owl.md").write_text("One owl.\n")
    made.update()
    assert (before > 8, opened(made).count()) == (True, 2)
    (made.store.root / "memory/owl.md").write_text("")
    made.update()
    assert opened(made).count() == table_of(made).count_rows() == 1
    assert all(hit.segment.path == "memory/wren.md" for hit in opened(made).matching(["owl"], EVERYTHING, 9))


# What an embedding is


def test_another_model_of_the_same_dimension_is_never_mixed_in(store: MakeStore) -> None:
    made = store({"memory/owl.md": "Owls hunt.", "memory/wren.md": "Wrens sing."})
    old = Sidecar(made, HASHING)
    old.update()
    folder = folders.current_folder(old.location)
    assert folder is not None
    old.close()
    stamp = opened(old).stamp
    old.close()
    shutil.rmtree(old.location)
    beside = folders.new_folder(old.location)
    LanceIndex.create(beside, type(stamp)(stamp.schema, stamp.slicer, "hashing:other:256", stamp.dimension)).close()
    folders.publish(old.location, beside)
    answer = memory(made.root).progressive_retrieve("owl", {"scope": "all"})
    assert (answer["mode"], answer["stale"]) == ("keyword", 2)
    assert "memu-fs index" in (answer["reason"] or "")
    assert old.update().added == 2
    assert memory(made.root).progressive_retrieve("owl", {"scope": "all"})["mode"] == "hybrid"


def test_the_address_of_a_server_is_no_part_of_what_its_vectors_are() -> None:
    here, there = (
        make_embedder(EmbedderSettings("ollama:nomic-embed-text", url=f"http://{host}:11434/v1", dimension=768))
        for host in ("127.0.0.1", "10.0.0.7")
    )
    assert here.space == there.space
    assert "127" not in here.space


EXACT = {
    "memory/db.md": "The db timeout is thirty seconds; a refused connection is retried.\n",
    "memory/refused.md": "ECONNREFUSED 5432 means that postgres is still starting.\n",
    "memory/user.md": "getUserName reads the session.\n",
    "memory/plan.md": "来月の計画は未定です。\n",
    "memory/paths.md": "The lock lies in /var/lib/ingest/state.lock since May.\n",
    "memory/hash.md": "Bad build: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.\n",
    "memory/cv.md": "Das Résumé liegt im Tresor.\n",
}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("ECONNREFUSED 5432", "refused"),
        ("user name", "user"),
        ("計画", "plan"),
        ("/var/lib/ingest/state.lock", "paths"),
        ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "hash"),
        ("resume", "cv"),
    ],
)
def test_exact_words_find_their_file(store: MakeStore, query: str, name: str) -> None:
    answer = memory(store(EXACT).root).progressive_retrieve(query, {"scope": "all"}, limit=1)
    assert [file["name"] for file in answer["files"]] == [name]
    assert answer["segments"][0]["why"]["keyword"] is not None


def test_every_answer_says_how_it_was_found(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store({"memory/owl.md": "Owls hunt."})
    memory(made.root).progressive_retrieve("owl", {"scope": "all"})
    broken = memory(made.root, embedder="fastembed:no/such-model")
    answer = broken.progressive_retrieve("owl", {"scope": "all"})
    assert (answer["mode"], [file["name"] for file in answer["files"]]) == ("keyword", ["owl"])
    assert answer["reason"]


TABLE = "# Boats\n\n| boat | crew |\n| --- | --- |\n" + "".join(
    f"| Möwe {n} | crew of {n} sailors |\n" for n in range(90)
)
FENCE = "# Setup\n\n```sh\n# install the pump\n" + "".join(f"pump --step {n} --slow\n" for n in range(120)) + "```\n"


def test_tables_and_fences_are_cut_with_their_head_and_front_matter_is_no_prose(sidecar: OpenSidecar) -> None:
    made = sidecar(
        {
            "memory/boats.md": "---\ntags: [zebra]\nsomething: quagga\n---\n\n" + TABLE,
            "memory/setup.md": FENCE,
            "memory/lone.md": "```\n```\n",
        }
    )
    made.update()
    index = opened(made)
    boats, setup = index.segments("memory/boats.md"), index.segments("memory/setup.md")
    assert len(boats) > 1
    assert len(setup) > 1
    assert all("| boat | crew |" in segment.prefix + segment.text for segment in boats)
    assert all("```sh" in segment.prefix + segment.text for segment in setup)
    assert {segment.heading for segment in setup} == {"Setup"}
    assert not [segment for segment in boats if "zebra" in segment.text or "quagga" in segment.text]
    shown = memory(made.store.root).progressive_retrieve("pump", {"scope": "all"}, mode="keyword")["segments"]
    assert all(hit["score"] > 0 for hit in shown)
    assert not [hit for hit in shown if hit["name"] == "lone"]


# Processes


def test_the_commands_that_need_no_index_load_none(store: MakeStore) -> None:
    made = store({"memory/owl.md": "Owls hunt."})
    program = (
        "import sys; from memu_fs.cli.app import run; code = run(sys.argv[1:]); "
        "print([name for name in ('lancedb', 'onnxruntime', 'fastembed', 'pyarrow') if name in sys.modules]); "
        "raise SystemExit(code)"
    )
    for command in (["list"], ["show", "owl"], ["check"], ["config", "show"]):
        options = ["--store", str(made.root)] if command[0] != "config" else []
        done = subprocess.run(
            [sys.executable, "-c", program, *command, *options], capture_output=True, text=True, check=True
        )
        assert done.stdout.endswith("[]\n")


def test_questions_at_the_same_time_are_all_answered(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")
    made = store({f"memory/{n}.md": f"Owl {n} hunts." for n in range(20)})
    Sidecar(made, HASHING).update()
    several = [
        subprocess.Popen([*ASK, str(made.root), "owl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    answers = [one.communicate() for one in several]
    assert [one.returncode for one in several] == [0] * 4, answers
    assert len({out for out, _ in answers}) == 1
    assert len(json.loads(answers[0][0])["files"]) == 5
