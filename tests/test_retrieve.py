"""Answers from real files through a real index: what is given, in which order, and what never is."""

from __future__ import annotations

import datetime
import http.server
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memu_fs.backend import Retrieval
from memu_fs.config import Config
from memu_fs.index import folders
from memu_fs.local import LocalMemory
from memu_fs.scope import scope_of

if TYPE_CHECKING:
    from conftest import MakeStore

Ask = Callable[..., Retrieval]

ACME = "memory/projects/acme"
KEY = "AKIA" + "Q7RTZX3M5N8PWL2K"
TODAY = datetime.date.today()
DAY = datetime.timedelta(days=1)

FILES = {
    "memory/hub.md": "# Pump house\n\nThe pump house stands by the river and holds both pumps.\n",
    "memory/tides.md": "# Tides\n\nHigh tide at the mole comes eleven minutes after the harbour.\n",
    "memory/long.md": "# Lantern log\n\n" + "\n\n".join(f"## Night {n}\n\nThe lantern burned well." for n in range(9)),
    "memory/old-route.md": "---\nstatus: superseded\nsuperseded_by: new-route\n---\n\nThe mule goes over Karst.\n",
    "memory/new-route.md": "The mule route goes along the coast.\n",
    "memory/retired.md": "---\nstatus: retired\n---\n\nThe mule stable is at the mill.\n",
    "memory/rumour.md": "---\nstatus: disputed\n---\n\nThe mule is said to be twelve.\n",
    "memory/guess.md": "---\nstatus: unverified\norigin: agent\n---\n\nThe mule likes thistles.\n",
    "memory/expired.md": f"---\nvalid_until: {TODAY - DAY}\n---\n\nThe mule fair is over.\n",
    "memory/future.md": f"---\nvalid_from: {TODAY + DAY}\n---\n\nThe mule fair begins.\n",
    "memory/last-day.md": f"---\nvalid_from: {TODAY}\nvalid_until: {TODAY}\n---\n\nThe mule fair is today.\n",
    "memory/bell.md": "# Bell\n\nThe bell rings at six.\n",
    "memory/bell.conflict-0a1b2c3d.md": "# Bell\n\nThe bell rings at seven.\n",
    "memory/forgotten.md": "The mule was sold to Bruno.\n",
    ".tombstones/memory/forgotten.md": "",
    "memory/access.md": "# Access\n\n" + "The gate code is with the porter. " * 30 + f"\n\n## Key\n\nkey = {KEY}\n",
    f"{ACME}/deploy.md": "# Quartz deploy\n\nQuartz deploys go through the blue lock.\n",
    f"{ACME}/mules.md": "Acme owns a mule called Zirkon.\n",
    "memory/projects/acme/api/keys.md": "Quartz keys of the api are turned by hand.\n",
    "memory/projects/acme-two/deploy.md": "# Quartz deploy\n\nAcme two deploys quartz by rail.\n",
    "memory/agents/codex/notes.md": "Quartz is what codex calls the staging box.\n",
    "skill/clean-filter/SKILL.md": "---\nname: clean-filter\ndescription: Clean the pump filter\n---\n\n1. Stop it.\n",
    "skill/clean-filter/parts.md": "# Parts\n\nThe gasket is a Viton ring of 40 mm.\n",
    "skill/projects/acme/ship.md": "---\nname: ship\ndescription: Ship quartz\n---\n\n1. Load the quartz.\n",
    "resource/pump-manual.md": "---\ndescription: The pumps\nurl: https://pumps.example/manual\n---\n\nPump house.\n",
    "resource/projects/acme/quartz-board.md": "---\ndescription: Quartz board\n---\n\nQuartz in numbers.\n",
} | {f"memory/days/{n:02}.md": f"# Day {n}\n\nWe looked at the pump and the pump was fine.\n" for n in range(40)}


def open_memory(*roots: Path, **variables: str) -> LocalMemory:
    settings = {"MEMU_FS_EMBEDDER": "hashing", "MEMU_FS_FRESHNESS_SECONDS": "60"}
    for name, value in variables.items():
        settings[f"MEMU_FS_{name.upper()}"] = value
    return LocalMemory.open(*roots, config=Config(Path("config.toml"), {}, settings))


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store that the tests of this module only read."""
    root = write(tmp_path_factory.mktemp("wiki"), FILES)
    for path in root.rglob("*.md"):
        os.utime(path, ns=(10**18, 10**18))
    return root


@pytest.fixture(scope="module")
def memory(wiki: Path) -> Iterator[LocalMemory]:
    opened = open_memory(wiki)
    opened.sidecars[0].update()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def ask(memory: LocalMemory) -> Ask:
    def asked(query: str, scope: object = "all", **options: Any) -> Retrieval:
        where = {"scope": scope} | {key: options.pop(key) for key in ("track", "include_inactive") if key in options}
        return memory.progressive_retrieve(query, where, **options)

    return asked


@pytest.fixture
def copy(wiki: Path, memory: LocalMemory, tmp_path: Path) -> LocalMemory:
    """Give a copy of the store, index included, that a test may spoil."""
    shutil.copytree(wiki, tmp_path / "copy")
    return open_memory(tmp_path / "copy")


def names(answer: Retrieval) -> list[str]:
    return [file["name"] for file in answer["files"]]


def as_bytes(answer: Retrieval) -> str:
    return json.dumps(answer, ensure_ascii=False)


# What is given, and in which order


def test_a_hub_file_is_not_crowded_out_by_many_daily_notes(ask: Ask) -> None:
    answer = ask("pump house river", track="memory")
    assert names(answer)[0] == "hub"
    assert len(answer["files"]) == 5


def test_the_answer_is_filled_by_file_however_long_one_is(ask: Ask) -> None:
    answer = ask("lantern pump tide", track="memory", limit=3)
    assert len(names(answer)) == len(set(names(answer))) == 3
    shown = [segment for segment in answer["segments"] if segment["name"] == "long"]
    assert 1 <= len(shown) <= 4


def test_a_file_scores_as_its_best_segment(ask: Ask) -> None:
    answer = ask("lantern burned at night", limit=10)
    for file in answer["files"]:
        scores = [hit["score"] for hit in answer["segments"] if hit["recall_file_id"] == file["id"]]
        assert file["score"] == max(scores)


def test_the_order_is_total(ask: Ask) -> None:
    answer = ask("we looked at the pump", limit=50)
    files = [(-file["score"], file["track"], file["name"]) for file in answer["files"]]
    segments = [(-hit["score"], hit["track"], hit["name"], hit["lines"][0]) for hit in answer["segments"]]
    assert files == sorted(files)
    assert segments == sorted(segments)
    assert len({score for score, _, _ in files}) < len(files), "equal scores were compared"


@pytest.mark.parametrize("query", ["pump house", "mule", "how does the lantern burn", "Viton"])
def test_the_same_question_gives_the_same_bytes_and_ranks_survive_a_rebuild(copy: LocalMemory, query: str) -> None:
    where = {"scope": "all"}
    first = copy.progressive_retrieve(query, where, limit=10)
    assert as_bytes(first) == as_bytes(copy.progressive_retrieve(query, where, limit=10))
    copy.close()
    assert as_bytes(first) == as_bytes(copy.progressive_retrieve(query, where, limit=10))
    copy.sidecars[0].rebuild()
    again = copy.progressive_retrieve(query, where, limit=10)
    assert [hit["id"] for hit in again["segments"]] == [hit["id"] for hit in first["segments"]]
    assert names(again) == names(first)


def test_words_that_only_one_file_holds_find_it(ask: Ask) -> None:
    assert names(ask("Viton", limit=1)) == ["clean-filter"]
    assert ask("Viton", limit=1)["mode"] == "hybrid"


def test_a_skills_other_files_roll_up_to_it(ask: Ask) -> None:
    answer = ask("Viton gasket ring", limit=1)
    assert [(file["name"], file["path"]) for file in answer["files"]] == [
        ("clean-filter", "skill/clean-filter/SKILL.md")
    ]
    hit = answer["segments"][0]
    assert (hit["name"], hit["path"], hit["lines"]) == ("clean-filter", "skill/clean-filter/parts.md", [1, 3])


def test_resources_are_ranked_on_their_own(ask: Ask) -> None:
    answer = ask("pump house", limit=2)
    assert all(file["track"] != "workspace" for file in answer["files"])
    assert all(hit["track"] != "workspace" for hit in answer["segments"])
    best = answer["resources"][0]
    assert (best["name"], best["caption"]) == ("pump-manual", "The pumps")
    assert best["url"] == "https://pumps.example/manual"
    assert best["score"] == 1.0
    alone = ask("pump house", track="resource")
    assert (alone["files"], alone["segments"]) == ([], [])
    assert alone["resources"][0] == best


def test_an_explanation_shows_both_ranks(ask: Ask) -> None:
    for hit in ask("mule route", explain=True)["segments"]:
        why = hit["why"]
        assert set(why) == {"vector", "keyword", "vector_rank", "keyword_rank"}
        assert (why["keyword"] is None) == (why["keyword_rank"] is None)


def test_the_ways_of_searching_can_be_asked_for_alone(ask: Ask) -> None:
    words, vectors = ask("mule route", mode="keyword"), ask("mule route", mode="vector")
    assert (words["mode"], vectors["mode"]) == ("keyword", "vector")
    assert all(hit["why"]["vector"] is None for hit in words["segments"])
    assert all(hit["why"]["keyword"] is None for hit in vectors["segments"])


def test_a_query_without_words_is_answered_by_its_vector(ask: Ask) -> None:
    answer = ask("?!")
    assert (answer["mode"], answer["reason"]) == ("vector", "the query has no words to look up")


# Who sees what


SECRET_WORDS = ("quartz", "zirkon", "acme")
QUERIES = ("quartz deploy", "Zirkon", "quartz board", "ship quartz", "mule", "memory/projects/acme/deploy", "acme")


@pytest.mark.parametrize("mode", [None, "keyword", "vector"])
@pytest.mark.parametrize("scope", ["shared", "project:acme-two", "project:acm", "agent:codex", "project:other"])
def test_another_projects_file_never_appears(ask: Ask, scope: str, mode: str | None) -> None:
    for query in QUERIES:
        for inactive in (False, True):
            answer = ask(query, scope, mode=mode, limit=100, content=True, explain=True, include_inactive=inactive)
            paths = [hit["path"] for kind in ("segments", "files", "resources") for hit in answer[kind]]
            assert not [path for path in paths if scope_of(path).startswith("projects/acme/")]
            assert not [path for path in paths if scope_of(path) == "projects/acme"]
            shown = as_bytes({**answer, "query": ""}).lower()
            assert "zirkon" not in shown
            assert "blue lock" not in shown


def test_a_project_sees_its_own_and_what_is_shared_and_its_parts(ask: Ask) -> None:
    found = {file["path"] for file in ask("quartz mule", "project:acme", limit=100)["files"]}
    assert {f"{ACME}/deploy.md", f"{ACME}/mules.md", "memory/new-route.md", f"{ACME}/api/keys.md"} <= found
    assert not [path for path in found if "acme-two" in path or "agents" in path]
    part = {file["path"] for file in ask("quartz mule", "project:acme/api", limit=100)["files"]}
    assert f"{ACME}/api/keys.md" in part
    assert f"{ACME}/deploy.md" not in part


def test_a_project_and_an_agent_may_be_combined(ask: Ask) -> None:
    found = {file["path"] for file in ask("quartz", ["project:acme-two", "agent:codex"], limit=100)["files"]}
    assert {"memory/projects/acme-two/deploy.md", "memory/agents/codex/notes.md"} <= found


def test_another_projects_unread_files_are_not_counted(copy: LocalMemory) -> None:
    root = copy.stores[0].root
    write(root, {f"{ACME}/new.md": "Quartz again.", f"{ACME}/deploy.md": "Quartz is over.", "memory/here.md": "Here."})
    (root / f"{ACME}/mules.md").unlink()
    with folders.writer_lock(copy.sidecars[0].location, timeout=0):
        other = copy.progressive_retrieve("quartz", {"scope": "project:other"}, limit=100)
        own = copy.progressive_retrieve("quartz", {"scope": "project:acme"}, limit=100)
    assert (other["stale"], own["stale"]) == (1, 4)
    assert "acme" not in as_bytes(other)


# What is recalled


def test_only_what_is_recalled_by_default_is_given(ask: Ask) -> None:
    found = names(ask("mule", "shared", limit=100))
    assert {"new-route", "rumour", "guess", "last-day"} <= set(found)
    assert not {"old-route", "retired", "expired", "future", "forgotten", "bell.conflict-0a1b2c3d"} & set(found)


def test_what_is_not_recalled_is_given_on_request_with_its_status(ask: Ask) -> None:
    files = {file["name"]: file for file in ask("mule", "shared", limit=100, include_inactive=True)["files"]}
    expected = {
        "old-route": "superseded",
        "retired": "retired",
        "rumour": "disputed",
        "guess": "unverified",
        "expired": "active",
        "future": "active",
        "forgotten": "forgotten",
        "new-route": "active",
    }
    assert {name: files[name]["status"] for name in expected} == expected
    assert files["old-route"]["superseded_by"] == "new-route"
    assert files["guess"]["origin"] == "agent"


def test_a_conflict_copy_is_folded_into_its_original_which_is_flagged(ask: Ask) -> None:
    answer = ask("bell rings seven", limit=100)
    files = {file["name"]: file for file in answer["files"]}
    assert files["bell"]["conflicts"] == ["memory/bell.conflict-0a1b2c3d.md"]
    assert files["hub"]["conflicts"] == []
    assert "seven" not in as_bytes({**answer, "query": ""})


def test_a_secret_is_in_no_answer(ask: Ask) -> None:
    for mode in (None, "keyword", "vector"):
        answer = ask("access key gate porter", content=True, limit=100, mode=mode)
        content = {file["name"]: file["content"] for file in answer["files"]}["access"]
        assert KEY not in as_bytes(answer)
        assert "[secret: " in content
        assert "The gate code is with the porter." in content
    assert not ask(KEY, mode="keyword", limit=100)["segments"]


def test_a_secret_in_front_matter_is_in_no_answer(store: MakeStore) -> None:
    made = store(
        {
            "memory/gate.md": f"---\ndescription: The gate opens with {KEY}\n---\n\nThe gate is green.\n",
            "resource/gate.md": f"---\nurl: https://gate.example/?k={KEY}\n---\n\n" + "The gate is green. " * 60,
            "resource/code.md": f"The code is {KEY}\n\n## Gate\n\n" + "It opens the gate. " * 60,
        }
    )
    opened = open_memory(made.root)
    answer = opened.progressive_retrieve("gate green", {"scope": "all"}, content=True)
    assert (names(answer), [hit["name"] for hit in answer["resources"]]) == (["gate"], ["gate", "code"])
    assert KEY not in as_bytes(answer)
    assert KEY not in as_bytes(opened.list_all_recall_files({"scope": "all"}, content=True))  # type: ignore[arg-type]
    opened.close()


def test_a_text_that_is_no_longer_allowed_as_a_secret_leaves_the_index(store: MakeStore) -> None:
    made = store({"memory/gate.md": f"The gate key is {KEY}\n"})
    (made.root / ".memu-fs.toml").write_text(f"format = 1\n[secrets]\nallow = ['{KEY}']\n")
    where = {"scope": "all"}
    allowed = open_memory(made.root)
    assert KEY in as_bytes(allowed.progressive_retrieve("gate key", where, content=True))
    allowed.close()
    (made.root / ".memu-fs.toml").write_text("format = 1\n")
    refused = open_memory(made.root)
    assert KEY not in as_bytes(refused.progressive_retrieve("gate key", where, content=True))
    refused.close()


# Files that changed since


def test_a_save_is_found_by_the_next_question(copy: LocalMemory) -> None:
    root = copy.stores[0].root
    write(root, {"memory/tides.md": "The mole is gone; the Fahrenheit buoy is there.\n"})
    answer = copy.progressive_retrieve("Fahrenheit buoy", {"scope": "all"}, limit=1)
    assert (names(answer), answer["stale"]) == (["tides"], 0)
    (root / "memory/tides.md").unlink()
    assert "tides" not in names(copy.progressive_retrieve("Fahrenheit buoy", {"scope": "all"}, limit=100))


def test_while_the_index_cannot_be_written_answers_hold_to_the_files(copy: LocalMemory) -> None:
    root = copy.stores[0].root
    lines = (
        (root / "memory/long.md").read_text().replace("## Night 3\n\nThe lantern burned well.", "## Night 3\n\nDark.")
    )
    write(root, {"memory/long.md": "Three\nnew\nlines\n\n" + lines, "memory/hub.md": "Nothing that was here.\n"})
    (root / "memory/tides.md").unlink()
    write(root, {"memory/new-route.md": "---\nstatus: retired\n---\n\nThe mule route goes along the coast.\n"})
    with folders.writer_lock(copy.sidecars[0].location, timeout=0):
        answer = copy.progressive_retrieve("lantern tide pump house mule route", {"scope": "all"}, limit=100)
    assert answer["stale"] == 4
    assert answer["reason"] == "another process is writing the index"
    assert not {"tides", "hub", "new-route"} & set(names(answer))
    shown = [hit for hit in answer["segments"] if hit["name"] == "long"]
    assert shown
    for hit in shown:
        first, last = hit["lines"]
        on_disk = "\n".join((root / hit["path"]).read_text().split("\n")[first - 1 : last])
        assert hit["text"].strip() == on_disk.strip()


def test_every_shown_passage_stands_on_its_lines(ask: Ask, wiki: Path) -> None:
    for query in ("mule", "lantern", "pump", "Viton", "gate"):
        for hit in ask(query, limit=100)["segments"]:
            first, last = hit["lines"]
            on_disk = "\n".join((wiki / hit["path"]).read_text().split("\n")[first - 1 : last])
            assert hit["text"].strip() in on_disk or hit["path"].startswith(("skill/", "resource/"))


# Several stores


def test_an_answer_from_several_stores_names_them(wiki: Path, memory: LocalMemory, store: MakeStore) -> None:
    other = store({"memory/hub.md": "Another pump house by the river.\n", "resource/pump.md": "Pump house drawings.\n"})
    both = open_memory(wiki, other.root)
    answer = both.progressive_retrieve("pump house river", {"scope": "all"}, limit=5)
    for kind in ("segments", "files", "resources"):
        found = {hit["store"] for hit in answer[kind]}
        assert found == {str(wiki), str(other.root)}
    assert [file["name"] for file in answer["files"][:2]] == ["hub", "hub"]
    assert "store" not in memory.progressive_retrieve("pump", {"scope": "all"})["files"][0]
    both.close()


# When something is not as it should be


def test_vectors_of_two_spaces_are_never_compared(copy: LocalMemory) -> None:
    root = copy.stores[0].root
    copy.close()
    changed = open_memory(root, embedder="minilm")
    answer = changed.progressive_retrieve("mule route", {"scope": "all"})
    assert (answer["mode"], answer["reason"]) == (
        "keyword",
        "the index holds another embedding space: run memu-fs index",
    )
    assert all(hit["why"]["vector"] is None for hit in answer["segments"])
    assert "new-route" in names(answer)
    changed.close()
    same = open_memory(root)
    same.sidecars[0].update()
    assert same.progressive_retrieve("mule route", {"scope": "all"})["mode"] == "hybrid"
    same.close()


class Endpoint(http.server.BaseHTTPRequestHandler):
    """An embedding server that counts vowels."""

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        rows = [
            [1.0 + text.count(vowel) for vowel in "aeiou"] for text in ([texts] if isinstance(texts, str) else texts)
        ]
        body = json.dumps({"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_without_its_embedding_server_it_answers_by_keywords_and_says_so(store: MakeStore) -> None:
    made = store({"memory/tides.md": "High tide comes late.\n", "memory/bell.md": "The bell rings.\n"})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    variables = {"embedder": "openai:vowels", "embedder_url": url, "embedder_key": "none", "embedder_timeout": "5"}
    up = open_memory(made.root, **variables)
    assert up.progressive_retrieve("tide", {"scope": "all"})["mode"] == "hybrid"
    up.close()
    server.shutdown()
    server.server_close()
    thread.join()
    write(made.root, {"memory/new.md": "The tide table is new.\n"})
    down = open_memory(made.root, **variables)
    answer = down.progressive_retrieve("tide", {"scope": "all"})
    assert (answer["mode"], names(answer), answer["stale"]) == ("keyword", ["tides"], 1)
    assert "127.0.0.1" in (answer["reason"] or "")
    down.close()


@pytest.mark.parametrize("damage", ["current", "catalogue", "table", "half"])
def test_a_damaged_index_gives_the_right_answer_all_the_same(copy: LocalMemory, ask: Ask, damage: str) -> None:
    copy.close()
    location = copy.sidecars[0].location
    folder = folders.current_folder(location)
    assert folder is not None
    if damage == "current":
        (location / "current").write_text("no number\n")
    elif damage == "catalogue":
        (folder / "files.sqlite").write_bytes(b"no database" * 100)
    elif damage == "table":
        largest = max((folder / "segments.lance").rglob("*.lance"), key=lambda path: path.stat().st_size)
        data = largest.read_bytes()
        largest.write_bytes(data[: len(data) // 2])
    else:
        shutil.rmtree(folder / "segments.lance")
    answer = copy.progressive_retrieve("pump house river", {"scope": "all"})
    assert as_bytes(answer) == as_bytes(ask("pump house river"))
    assert answer["stale"] == 0


def test_a_deleted_index_is_made_again_and_nothing_is_lost(copy: LocalMemory, ask: Ask) -> None:
    shutil.rmtree(copy.stores[0].private)
    assert as_bytes(copy.progressive_retrieve("mule route", {"scope": "all"})) == as_bytes(ask("mule route"))


def test_with_no_time_to_index_the_rest_is_counted(store: MakeStore) -> None:
    made = store({f"memory/{n}.md": f"Owl {n} hunts. " * 200 for n in range(8)})
    opened = open_memory(made.root, freshness_seconds="0")
    first = opened.progressive_retrieve("owl", {"scope": "all"}, limit=100)
    assert (len(first["files"]), first["stale"]) == (1, 7)
    assert opened.progressive_retrieve("owl", {"scope": "all"})["stale"] == 6
    opened.close()


def test_a_store_that_cannot_be_written_says_what_to_do(store: MakeStore) -> None:
    made = store({"memory/owl.md": "Owls hunt.\n"})
    (made.root / ".memu").write_text("in the way\n")  # refuses a folder even to root
    opened = open_memory(made.root)
    answer = opened.progressive_retrieve("owl", {"scope": "all"})
    assert (answer["files"], answer["stale"]) == ([], 1)
    assert "index_location" in (answer["reason"] or "")
    opened.close()


def test_an_index_kept_elsewhere_needs_nothing_writable_in_the_store(store: MakeStore, tmp_path: Path) -> None:
    made = store({"memory/owl.md": "Owls hunt.\n"})
    (made.root / ".memu").write_text("in the way\n")
    opened = open_memory(made.root, index_location=str(tmp_path / "a folder über all"))
    answer = opened.progressive_retrieve("owl", {"scope": "all"})
    assert (names(answer), answer["reason"], answer["stale"]) == (["owl"], None, 0)
    assert (made.root / ".memu").read_text() == "in the way\n"
    opened.close()


def test_an_empty_store_has_nothing_to_say(store: MakeStore) -> None:
    opened = open_memory(store().root)
    answer = opened.progressive_retrieve("owl", {"scope": "all"})
    assert (answer["files"], answer["segments"], answer["resources"], answer["stale"]) == ([], [], [], 0)
    opened.close()
