"""Nothing leaves the machine unasked, and nothing that would is kept for later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: Every attempt to reach another host ends the process with a number of its own.
_GUARDED = """
import os, socket, sys

def refuse(event, arguments):
    asks = event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
    if asks or (event == "socket.connect" and isinstance(arguments[1], tuple)):
        os._exit(77)

sys.addaudithook(refuse)
from memu_fs.cli import main
sys.argv = ["memu-fs", *sys.argv[1:]]
main()
"""


def test_the_default_model_leaves_nothing_behind_and_asks_nobody(tmp_path: Path) -> None:
    home, store = tmp_path / "home", tmp_path / "store"
    (store / "memory").mkdir(parents=True)
    home.mkdir()
    (store / "memory" / "tides.md").write_text("The harbour floods at spring tide.\n", "utf-8")
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", _GUARDED, "retrieve", "--store", str(store), "--json", "when does it flood"],
        env={**kept, "HOME": str(home), "MEMU_FS_DAEMON": "off"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert '"mode": "hybrid"' in done.stdout
    assert sorted(path.name for path in home.rglob("*")) == []
