"""The watcher, on real files: what wakes it, what does not, and what it says when there are no events."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from textwrap import dedent

import pytest

from memu_fs import mounts
from memu_fs.watch import Events, Watcher
from memu_fs.watch_inotify import FolderEvents
from memu_fs.watch_observer import ObserverEvents

Act = Callable[[Path], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    for folder in ("memory/deep/er", "skill/bake", ".git", "src", ".memu/index"):
        (store / folder).mkdir(parents=True)
    (store / "memory/owl.md").write_text("Owls hunt at night.\n")
    (store / "memory/deep/er/eel.md").write_text("Eels swim far.\n")
    (store / "skill/bake/SKILL.md").write_text("Preheat.\n")
    return store


@pytest.fixture
def watcher(root: Path) -> Iterator[Watcher]:
    watcher = Watcher(root, notify=pytest.fail)
    watcher.start()
    watcher.take()
    yield watcher
    watcher.stop()
    assert watcher.mode == "events"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("memu-fs")]


def replace(target: Path, text: str) -> None:
    draft = target.with_name(f".{target.name}.x1.tmp")
    draft.write_text(text)
    draft.replace(target)


def save_with_vim(target: Path) -> None:
    """Save as Vim does: by Vim, or by the same system calls where it is not installed."""
    if vim := shutil.which("vim"):
        command = [vim, "-u", "NONE", "-es", "--cmd", "set backup backupcopy=no", "-c", "norm Onight", "-c", "wq"]
        subprocess.run([*command, str(target)], check=False, stdin=subprocess.DEVNULL, timeout=20)
        assert "night" in target.read_text()
        return
    target.with_name("4913").touch()
    target.with_name("4913").unlink()
    target.rename(f"{target}~")
    target.write_text("night\n")
    Path(f"{target}~").unlink()


def make(*files: Path) -> Path:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("made\n")
    return files[0]


def count_watches() -> int:
    """Count what the kernel watches for this process."""
    return sum(Path("/proc/self/fdinfo", queue.name).read_text().count("inotify wd:") for queue in queues("self"))


def queues(process: str) -> list[Path]:
    links = [handle for handle in Path("/proc", process, "fd").iterdir() if handle.is_symlink()]
    return [link for link in links if link.readlink() == Path("anon_inode:inotify")]


def make_deep(root: Path) -> None:
    make(root / "memory/a/b/c/new.md")


CHANGES: dict[str, Act] = {
    "a new file": lambda root: (root / "memory/new.md").write_text("new\n"),
    "a file written in place": lambda root: (root / "memory/owl.md").write_text("By day.\n"),
    "a file cut short": lambda root: os.truncate(root / "memory/owl.md", 3),
    "a file replaced by a rename": lambda root: replace(root / "memory/owl.md", "By day.\n"),
    "a file in a sub-folder": lambda root: replace(root / "memory/deep/er/eel.md", "Nearby.\n"),
    "a save by Vim": lambda root: save_with_vim(root / "memory/deep/er/eel.md"),
    "a file deleted": lambda root: (root / "memory/owl.md").unlink(),
    "a file renamed": lambda root: (root / "memory/owl.md").rename(root / "memory/barn-owl.md"),
    "a file moved out": lambda root: (root / "memory/owl.md").rename(root / "src/owl.md"),
    "a file moved out under a hidden name": lambda root: (root / "memory/owl.md").rename(root / "memory/.owl"),
    "a part of a skill": lambda root: (root / "skill/bake/oven.py").write_text("on()\n"),
    "a folder of folders": make_deep,
    "a folder deleted": lambda root: shutil.rmtree(root / "memory/deep"),
    "a folder moved out": lambda root: (root / "memory/deep").rename(root / "src/deep"),
    "a folder whose name ends like a backup": lambda root: (root / "memory/old~").mkdir(),
    "a track that appears": lambda root: (root / "resource").mkdir(),
    "a track that goes": lambda root: shutil.rmtree(root / "skill"),
    "a tombstone": lambda root: (root / ".tombstones/memory").mkdir(parents=True),
    "the marker": lambda root: (root / ".memu-fs.toml").write_text("format = 1\n"),
    "a link to a folder of the store": lambda root: (root / "memory/linked").symlink_to("../src"),
}

NOISE: dict[str, Act] = {
    "reading": lambda root: [(root / "memory/owl.md").read_text(), list((root / "memory").rglob("*"))],
    "an index": lambda root: (root / ".memu/index/rows").write_text("rows\n"),
    "git": lambda root: (root / ".git/index.lock").write_text("lock\n"),
    "a project's own files": lambda root: make(root / "src/main.md", root / "README.md"),
    "a swap file": lambda root: (root / "memory/.owl.md.swp").write_text("swap\n"),
    "a lock file of Emacs": lambda root: (root / "memory/.#owl.md").symlink_to("me@here.42"),
    "an auto-save file": lambda root: (root / "memory/#owl.md#").write_text("draft\n"),
    "a backup": lambda root: (root / "memory/owl.md~").write_text("old\n"),
    "Vim's write test": lambda root: make(root / "memory/4913").unlink(),
    "a hidden folder": lambda root: make(root / "memory/.obsidian/app.md"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_wakes_for(change: Act, root: Path, watcher: Watcher) -> None:
    change(root)
    assert watcher.wait(5)
    assert not watcher.is_quiet()


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE.keys())
def test_sleeps_through(noise: Act, root: Path, watcher: Watcher) -> None:
    noise(root)
    assert watcher.settle(5)
    assert watcher.is_quiet()
    assert not watcher.wait(0)


@pytest.mark.parametrize("source", [FolderEvents, ObserverEvents])
@pytest.mark.parametrize("change", ["a new file", "a file replaced by a rename", "a file moved out", "the marker"])
def test_every_source_has_counted_a_change_once_it_has_settled(
    source: Callable[..., Events], change: str, root: Path
) -> None:
    counted: list[int] = []
    events = source(root, lambda: counted.append(1), pytest.fail)
    events.start()
    for name in ("reading", "an index", "git", "a swap file", "Vim's write test"):
        NOISE[name](root)
    assert events.settle(5)
    assert not counted
    CHANGES[change](root)
    assert events.settle(5)
    assert counted
    events.stop()
    assert not events.settle(0)


def test_changes_are_reported_until_they_are_taken(root: Path, watcher: Watcher) -> None:
    (root / "memory/new.md").write_text("new\n")
    assert watcher.wait(5)
    assert watcher.wait(5)
    watcher.take()
    assert watcher.is_quiet()
    assert not watcher.wait(0.1)
    (root / "memory/new.md").write_text("newer\n")
    assert watcher.settle(5)
    assert not watcher.is_quiet()


def test_what_happened_before_the_start_is_not_taken_for_quiet(root: Path) -> None:
    watcher = Watcher(root, notify=pytest.fail)
    watcher.start()
    assert not watcher.is_quiet()
    assert watcher.wait(5)
    watcher.stop()


def test_the_interval_wakes_without_a_change_and_once_only(root: Path) -> None:
    watcher = Watcher(root, interval=0.3, notify=pytest.fail)
    watcher.start()
    watcher.take()
    assert watcher.wait(5)
    assert watcher.is_quiet()
    assert not watcher.wait(0.1)
    watcher.stop()


def test_stopping_lets_a_waiter_go(root: Path) -> None:
    watcher = Watcher(root, notify=pytest.fail)
    watcher.start()
    watcher.take()
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(watcher.wait(60)))
    waiter.start()
    watcher.stop()
    waiter.join(5)
    assert answers == [False]


def test_folders_that_come_and_go_stay_covered(root: Path, watcher: Watcher) -> None:
    make_deep(root)
    (root / "memory/a").rename(root / "memory/z")
    (root / "skill").rename(root / "skill-old")
    (root / "skill/fresh").mkdir(parents=True)
    shutil.rmtree(root / "memory/deep")
    (root / "memory/deep/er").mkdir(parents=True)
    for folder in ("memory/z/b/c", "memory/z", "skill/fresh", "memory/deep/er"):
        assert watcher.settle(5)
        watcher.take()
        replace(root / folder / "new.md", "new\n")
        assert watcher.settle(5)
        assert not watcher.is_quiet(), folder


def test_a_folder_that_left_the_store_is_no_longer_watched(root: Path, watcher: Watcher) -> None:
    watches = count_watches()
    (root / "memory/deep").rename(root / "src/deep")
    assert watcher.settle(5)
    assert count_watches() == watches - 2
    watcher.take()
    (root / "src/deep/er/eel.md").write_text("Elsewhere.\n")
    assert watcher.settle(5)
    assert watcher.is_quiet()


@pytest.mark.parametrize("way", ["deleted", "moved"])
def test_a_store_that_goes_and_comes_back_is_watched_again(way: str, root: Path, watcher: Watcher) -> None:
    if way == "deleted":
        shutil.rmtree(root)
    else:
        root.rename(root.with_name("elsewhere"))
    assert watcher.wait(5)
    assert watcher.settle(5)
    watcher.take()
    (root / "memory/again").mkdir(parents=True)
    assert watcher.wait(5)
    assert watcher.settle(5)
    watcher.take()
    (root / "memory/again/owl.md").write_text("Back.\n")
    assert watcher.wait(5)
    assert count_watches() == 3, "the store, memory and memory/again"


def test_links_are_followed_inside_the_store_and_not_out_of_it(root: Path, watcher: Watcher) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "src/notes").mkdir()
    (root / "src/page.md").write_text("A page.\n")
    (root / "memory/inside").symlink_to("../src/notes")
    (root / "memory/outside").symlink_to(outside)
    (root / "memory/page.md").symlink_to("../src/page.md")
    (root / "memory/readme.md").symlink_to("../README.md")
    (root / "memory/circle").symlink_to("circle")
    (root / "memory/deep/up").symlink_to("..")
    expected = {"src/notes/x.md": True, "src/page.md": True, "README.md": True, "src/other.md": False}
    for name, is_seen in [*expected.items(), ("../outside/x.md", False)]:
        assert watcher.settle(5)
        watcher.take()
        (root / name).write_text("text\n")
        assert watcher.settle(5)
        assert watcher.is_quiet() is not is_seen, name
    (root / "memory/src").symlink_to("../src")
    assert watcher.settle(5)
    watcher.take()
    (root / "src/other.md").write_text("now part of the store\n")
    assert watcher.settle(5)
    assert not watcher.is_quiet()


def count_wakes(watcher: Watcher, act: Callable[[], object]) -> int:
    worker = threading.Thread(target=act)
    worker.start()
    wakes = 0
    while True:
        is_over = not worker.is_alive()
        if watcher.wait(0.6):
            watcher.take()
            wakes += 1
        elif is_over:
            break
    worker.join()
    return wakes


def test_a_storm_of_files_is_a_few_wakes(root: Path, watcher: Watcher) -> None:
    def storm() -> None:
        for number in range(1000):
            (root / f"memory/{number}.md").write_text("storm\n")

    assert 1 <= count_wakes(watcher, storm) <= 10


def test_git_changing_the_work_tree_is_a_few_wakes(root: Path, watcher: Watcher) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)

    (root / ".git").rmdir()
    git("init", "-q", "-b", "main")
    git("add", "memory")
    git("commit", "-qm", "few")
    git("checkout", "-qb", "many")
    for number in range(300):
        (root / f"memory/deep/{number}.md").write_text("many\n")
    git("add", "memory")
    git("commit", "-qm", "many")
    git("checkout", "-q", "main")
    (root / "memory/owl.md").write_text("Changed.\n")
    for arguments in (["stash"], ["checkout", "many"], ["checkout", "main"], ["stash", "pop"], ["merge", "many"]):
        assert watcher.settle(5)
        watcher.take()
        assert 1 <= count_wakes(watcher, partial(git, *arguments)) <= 10, arguments
    assert watcher.settle(5)
    watcher.take()
    git("status")
    git("log")
    assert watcher.settle(5)
    assert watcher.is_quiet()


WANDER = """
import os, random, shutil, sys
from pathlib import Path

top, chance = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
for number in range(int(sys.argv[3])):
    folders = [path for path in top.rglob("*") if path.is_dir()]
    files = [path for path in top.rglob("*.md")]
    place = chance.choice([top, *folders])
    act = chance.choice("write write mkdir replace unlink move movedir rmtree".split())
    if act == "mkdir":
        (place / f"d{number}" / "in").mkdir(parents=True)
    elif act == "unlink" and files:
        chance.choice(files).unlink()
    elif act == "move" and files:
        chance.choice(files).rename(place / f"m{number}.md")
    elif act == "movedir" and folders and not place.is_relative_to(folder := chance.choice(folders)):
        folder.rename(place / f"v{number}")
    elif act == "rmtree" and len(folders) > 12:
        shutil.rmtree(chance.choice(folders))
    elif act == "replace" and files:
        draft = place / f".t{number}"
        draft.write_text(act)
        draft.replace(chance.choice(files))
    else:
        (place / f"w{number}.md").write_text(act)
    print(act, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("seed", range(3))
def test_whatever_another_process_does_is_noticed(seed: int, root: Path, watcher: Watcher) -> None:
    command = [sys.executable, "-c", WANDER, str(root / "memory"), str(seed), "120"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as wanderer:
        assert wanderer.stdin
        assert wanderer.stdout
        for act in wanderer.stdout:
            assert watcher.settle(5)
            assert not watcher.is_quiet(), act
            watcher.take()
            wanderer.stdin.write("\n")
    assert wanderer.returncode == 0
    for folder in [path for path in (root / "memory").rglob("*") if path.is_dir()]:
        (folder / "last.md").write_text("last\n")
        assert watcher.settle(5)
        assert not watcher.is_quiet(), folder
        watcher.take()


def test_a_queue_that_overflows_counts_as_a_change_and_leaves_no_folder_unwatched(root: Path) -> None:
    counted: list[int] = []
    gate = threading.Event()

    def count() -> None:
        counted.append(1)
        gate.wait(60)

    events = FolderEvents(root, count, pytest.fail)
    events.start()
    (root / "memory/first.md").write_text("first\n")
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(limit + 100):
        os.utime(root / ("memory/first.md" if number % 2 else "memory/owl.md"))
    (root / "memory/late/r").mkdir(parents=True)
    gate.set()
    assert events.settle(30)
    counted.clear()
    (root / "memory/late/r/owl.md").write_text("Late.\n")
    assert events.settle(5)
    assert counted
    events.stop()


def test_a_store_in_which_nothing_can_be_written_has_events_all_the_same(root: Path) -> None:
    shutil.rmtree(root / ".memu")
    (root / ".memu").write_text("in the way\n")
    watcher = Watcher(root, interval=0.2, notify=pytest.fail)
    watcher.start()
    watcher.take()
    assert watcher.wait(5)
    watcher.take()
    (root / "memory/owl.md").write_text("By day.\n")
    assert watcher.settle(5)
    assert not watcher.is_quiet()
    watcher.stop()


def test_stopping_gives_back_every_thread_and_descriptor(root: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for source in (FolderEvents, ObserverEvents):
        for _ in range(5):
            events: Events = source(root, lambda: None, pytest.fail)
            events.start()
            assert events.settle(5)
            events.stop()
    assert (len(list(Path("/proc/self/fd").iterdir())), threading.active_count()) == before


def test_no_descriptor_is_held_for_a_file_or_folder(root: Path, watcher: Watcher) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(50):
        (root / f"memory/f{number}").mkdir()
        (root / f"memory/f{number}/x.md").write_text("x\n")
    assert watcher.settle(5)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_child_process_inherits_no_queue(root: Path, watcher: Watcher) -> None:
    assert len(queues("self")) == 1
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        try:
            assert not queues(str(child.pid))
        finally:
            child.kill()


def test_an_idle_watcher_uses_no_time(root: Path, watcher: Watcher) -> None:
    used = time.process_time()
    assert not watcher.wait(1)
    assert time.process_time() - used < 0.02


def test_a_source_whose_events_stop_says_so(root: Path) -> None:
    reasons: list[str] = []
    events = ObserverEvents(root, lambda: None, reasons.append)
    events.start()
    root.rename(root.with_name("elsewhere"))
    (root / "memory").mkdir(parents=True)
    assert not events.settle(0.1)
    events.check()
    assert reasons == ["the system no longer reports changes here"]
    events.stop()


REPORT = """
import json, sys
from pathlib import Path
from memu_fs.watch import Watcher

root, said = Path(sys.argv[1]), []
watcher = Watcher(root, notify=said.append)
watcher.start()
modes = [watcher.mode]
watcher.take()
for number in range(30):
    (root / f"memory/more{number}").mkdir()
settled = watcher.settle(2)
watcher.take()
woken = watcher.wait(0.1), watcher.wait(5), watcher.wait(0.1)
quiet = watcher.is_quiet()
modes.append(watcher.mode)
watcher.stop()
print(json.dumps([modes, said == [watcher.reason], watcher.reason, settled, woken, quiet]))
"""

REFUSE = """
import ctypes, platform, sys
numbers, answer = json.loads(sys.argv[2])[platform.machine() == "aarch64"], int(sys.argv[3])
steps = [(0x20, 0, 0, 0), *[(0x15, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]]
steps += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | answer)]
Step = type("Step", (ctypes.Structure,), {"_fields_": [
    ("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]})
program = (Step * len(steps))(*steps)
Program = type("Program", (ctypes.Structure,), {"_fields_": [("len", ctypes.c_ushort), ("at", ctypes.c_void_p)]})
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(steps), ctypes.addressof(program))), 0, 0) == 0
"""
ADD_WATCH, NEW_QUEUE = [[254], [27]], [[253, 294], [26]]  # system calls on x86-64 and arm64


def report_with_kernel_refusing(root: Path, calls: list[list[int]], answer: int) -> list[object]:
    """Let the kernel itself answer some system calls of a child with an error, or with nothing done."""
    script = REPORT.replace("import json, sys\n", "import json, sys\n" + dedent(REFUSE), 1)
    return report([sys.executable, "-c", script, str(root), json.dumps(calls), str(answer)])


def report_with_limit(root: Path, limit: str, number: int) -> list[object] | None:
    """Run a child in a user namespace of its own where a limit is lowered; ``None`` where that is not allowed."""
    lower = f'echo {number} > /proc/sys/user/{limit} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", lower, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        return None
    return report([*command, sys.executable, "-c", REPORT, str(root)])


def report(command: list[str]) -> list[object]:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    answer: list[object] = json.loads(done.stdout)
    return answer


def assert_scans(answer: list[object], modes: list[str], why: str) -> None:
    found_modes, is_said_once, reason, settled, woken, quiet = answer
    assert found_modes == modes
    assert is_said_once
    assert isinstance(reason, str)
    assert reason.startswith("Changes in ")
    assert why in reason
    assert settled is False
    assert woken == [False, True, False]
    assert quiet is False


@pytest.mark.parametrize(("number", "mode"), [(3, "scanning"), (20, "events")])
def test_too_few_watches_mean_scanning_from_the_start_or_from_then_on(number: int, mode: str, root: Path) -> None:
    answer = report_with_limit(root, "max_inotify_watches", number)
    if answer is None:
        answer, mode = report_with_kernel_refusing(root, ADD_WATCH, 28), "scanning"
    assert_scans(answer, [mode, "scanning"], "max_user_watches")


def test_too_few_instances_mean_scanning(root: Path) -> None:
    answer = report_with_limit(root, "max_inotify_instances", 0)
    answer = answer or report_with_kernel_refusing(root, NEW_QUEUE, 24)
    assert_scans(answer, ["scanning", "scanning"], "max_user_instances")


def test_a_system_that_takes_watches_and_sends_no_events_means_scanning(root: Path) -> None:
    answer = report_with_kernel_refusing(root, ADD_WATCH, 0)
    assert_scans(answer, ["scanning", "scanning"], "reports no changes")


def test_a_remote_file_system_means_scanning(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/share {root.parent} nfs4 rw,vers=4.2 0 0\n")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    said: list[str] = []
    watcher = Watcher(root, notify=said.append)
    watcher.start()
    watcher.take()
    assert (watcher.mode, said) == ("scanning", [watcher.reason])
    assert "(nfs4)" in said[0]
    assert not watcher.settle(1)
    assert not watcher.is_quiet()
    assert not watcher.wait(0.1)
    assert watcher.wait(5)
    watcher.stop()


@pytest.mark.parametrize(
    ("folder", "kind", "remote"),
    [
        ("/home/ada/notes", "ext4", False),
        ("/home/ada/my disk/notes", "fuse.sshfs", True),
        ("/home/ada/my disks", "ext4", False),
        ("/mnt/c/notes", "9p", True),
        ("/mnt/c/local/notes", "btrfs", False),
        ("/media/ada/usb", "fuseblk", False),
    ],
)
def test_the_deepest_mount_says_what_a_folder_is_on(folder: str, kind: str, remote: bool) -> None:
    table = dedent("""\
        rootfs / rootfs rw 0 0
        /dev/sda1 / ext4 rw,relatime 0 0
        /dev/sdb1 /mnt/c/local btrfs rw 0 0
        drvfs /mnt/c 9p rw,aname=drvfs;path=C:\\134 0 0
        ada@host: /home/ada/my\\040disk fuse.sshfs rw,user_id=1000 0 0
        /dev/sdc1 /media/ada/usb fuseblk rw 0 0
    """)
    assert mounts.kind_in(table, PurePosixPath(folder)) == kind
    assert mounts.is_remote(kind) is remote
