from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memu_fs import event_log
from memu_fs.event_log import KINDS, UnknownEventError, read_events, record

WRITER = """
import sys
from pathlib import Path
from memu_fs import event_log
event_log.MAX_BYTES = int(sys.argv[3])
for number in range(1000):
    event_log.record(Path(sys.argv[1]), "pass", ms=number, files=int(sys.argv[2]), segments=123456789)
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / ".memu"
    folder.mkdir()
    return folder


def write_in_four_processes(private: Path, most: int) -> None:
    command = [sys.executable, "-c", WRITER, str(private)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    running = [subprocess.Popen([*command, str(number), str(most)], env=env) for number in range(4)]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]


def test_an_event_is_one_line_of_json_that_only_its_owner_can_read(private: Path) -> None:
    record(private, "retrieval", ms=12.345, mode="hybrid", warmth="warm", files=3, reason=None)
    log = private / "log" / "events.jsonl"
    line = log.read_text()
    assert line.endswith("\n")
    values = json.loads(line)
    assert values.pop("at") > 1_700_000_000
    assert values == {"kind": "retrieval", "ms": 12.3, "mode": "hybrid", "warmth": "warm", "files": 3}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_events_are_read_back_in_order_and_since_a_moment(private: Path) -> None:
    record(private, "hook", ms=5, event="prompt", silent=True, reason="timeout")
    record(private, "commit", files=2, by="agent")
    found = read_events(private)
    assert [(event.kind, dict(event.fields)) for event in found.events] == [
        ("hook", {"ms": 5, "event": "prompt", "silent": True, "reason": "timeout"}),
        ("commit", {"files": 2, "by": "agent"}),
    ]
    assert found.damaged == 0
    assert read_events(private, found.events[-1].at + 1).events == ()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("retrieval", {"query": "where are the keys"}),
        ("retrieval", {"path": "memory/a.md"}),
        ("retrieval", {"mode": "psychic"}),
        ("retrieval", {"mode": 1}),
        ("retrieval", {"files": "3"}),
        ("retrieval", {"files": True}),
        ("retrieval", {"ms": float("nan")}),
        ("hook", {"silent": 1}),
        ("error", {"reason": "No such file: /home/ada/notes.md"}),
        ("error", {"message": "text"}),
        ("gossip", {}),
        ("gossip", {"files": 1}),
    ],
)
def test_what_the_table_does_not_allow_is_refused_and_not_written(
    private: Path, kind: str, fields: dict[str, object]
) -> None:
    with pytest.raises(UnknownEventError):
        record(private, kind, **fields)
    assert not (private / "log").exists()


def test_numbers_are_brought_inside_their_bounds(private: Path) -> None:
    record(private, "pass", ms=float("inf"), files=-4, segments=10**30)
    (event,) = read_events(private).events
    assert event.fields == {"ms": 3_600_000, "files": 0, "segments": 1_000_000_000}


def test_the_table_holds_numbers_and_closed_sets_alone() -> None:
    for fields in KINDS.values():
        for field in fields.values():
            assert isinstance(field, event_log.Number | event_log.OneOf)
    assert set(KINDS) == {"retrieval", "hook", "pass", "commit", "error"}


@given(text=st.text())
def test_no_free_text_gets_into_any_field(text: str) -> None:
    for fields in KINDS.values():
        for field in fields.values():
            known = isinstance(field, event_log.OneOf) and text in field.values
            assert known or field.read(text) is None


def test_a_store_without_a_private_folder_stays_without_one(tmp_path: Path) -> None:
    record(tmp_path / ".memu", "pass", ms=1)
    assert list(tmp_path.iterdir()) == []
    assert read_events(tmp_path / ".memu").events == ()


def test_a_log_that_cannot_be_written_is_nobodys_problem(private: Path) -> None:
    (private / "log").write_text("a file where a folder should be")
    record(private, "pass", ms=1)
    assert (private / "log").read_text() == "a file where a folder should be"


def test_a_link_in_place_of_the_log_is_not_followed(private: Path, tmp_path: Path) -> None:
    (private / "log").mkdir()
    (tmp_path / "profile").write_text("mine\n")
    (private / "log" / "events.jsonl").symlink_to(tmp_path / "profile")
    record(private, "pass", ms=1)
    assert (tmp_path / "profile").read_text() == "mine\n"


def test_damaged_lines_are_skipped_and_counted(private: Path) -> None:
    record(private, "pass", ms=1)
    with (private / "log" / "events.jsonl").open("ab") as file:
        file.write(b'{"at":1,"kind":"pass","ms":\n\n\xff\xfe\n[]\n7\n{"kind":"pass"}\n{"at":1e999,"kind":"pass"}\n')
        file.write(b'{"at":1,"kind":["pass"]}\n{"at":1,"kind":"retrieval","mode":"psychic"}\n' + b"[" * 100_000 + b"\n")
    record(private, "pass", ms=2)
    found = read_events(private)
    assert [event.fields["ms"] for event in found.events] == [1, 2]
    assert found.damaged == 9


def test_a_field_of_a_newer_version_is_left_out(private: Path) -> None:
    (private / "log").mkdir()
    (private / "log" / "events.jsonl").write_text('{"at":5,"kind":"pass","ms":1,"colour":"blue"}\n')
    (event,) = read_events(private).events
    assert (event.at, event.fields) == (5, {"ms": 1})


def test_four_processes_append_a_thousand_lines_each_and_none_is_torn(private: Path) -> None:
    write_in_four_processes(private, 2_000_000)
    found = read_events(private)
    assert found.damaged == 0
    seen = {(event.fields["files"], event.fields["ms"]) for event in found.events}
    assert seen == {(writer, number) for writer in range(4) for number in range(1000)}


def test_a_log_that_grows_is_put_aside_once_whoever_writes(private: Path) -> None:
    write_in_four_processes(private, 60_000)
    sizes = {path.name: path.stat().st_size for path in (private / "log").glob("*.jsonl")}
    assert set(sizes) == {"events.jsonl", "events.1.jsonl"}
    assert sizes["events.1.jsonl"] >= 60_000
    assert sum(sizes.values()) < 140_000
    found = read_events(private)
    assert found.damaged == 0
    assert len(found.events) > 500


def test_a_process_that_comes_late_to_put_the_log_aside_leaves_the_new_one(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(private, "pass", ms=1)
    monkeypatch.setattr(event_log, "MAX_BYTES", 60)
    record(private, "pass", ms=2)
    aside = (private / "log" / "events.1.jsonl").read_bytes()
    record(private, "pass", ms=3)
    event_log._rotate(private / "log")
    assert (private / "log" / "events.1.jsonl").read_bytes() == aside
    assert [event.fields["ms"] for event in read_events(private).events] == [1, 2, 3]


def test_a_log_read_while_it_is_put_aside_is_counted_once(private: Path) -> None:
    record(private, "pass", ms=1)
    (private / "log" / "events.1.jsonl").hardlink_to(private / "log" / "events.jsonl")
    assert len(read_events(private).events) == 1
