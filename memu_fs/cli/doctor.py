"""``memu-fs doctor``."""

from __future__ import annotations

import typer

from memu_fs.cli.options import JsonOption, StoreOption, open_store
from memu_fs.cli.printing import print_json, say


def doctor(store: StoreOption = None, json: JsonOption = False) -> None:
    """Prove the whole loop: store, git, config, embedder, index, a live retrieval.

    Each failure comes with the command that mends it. Exit status 1 when anything failed.

    Example: memu-fs doctor
    """
    from memu_fs.diagnosis import diagnose

    opened, config = open_store(store)
    findings = []
    for finding in diagnose(opened, config):
        findings.append(finding)
        if not json:
            say(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.detail}")
            if finding.fix and not finding.ok:
                say(f"      mend it with: {finding.fix}")
    healthy = all(finding.ok for finding in findings)
    if json:
        print_json({"ok": healthy, "findings": [finding.as_json() for finding in findings]})
    raise typer.Exit(0 if healthy else 1)
