"""What would be left behind when an identity, the store or the embedding space, is changed.

Judged by what the user's file declares, never by the environment of this process.
"""

from __future__ import annotations

from pathlib import Path

from memu_fs.config import BY_NAME, Config, convert
from memu_fs.errors import MemuError
from memu_fs.store import Store


def loss_of_change(config: Config, name: str, text: str | None) -> str | None:
    """Say in a sentence what a change would leave behind; ``None`` when nothing is lost."""
    setting = BY_NAME.get(name)
    if setting is None or not setting.is_identity:
        return None
    before = Config(config.path, config.declared, {})
    declared = {key: value for key, value in config.declared.items() if key != name}
    if text is not None:
        declared[name] = convert(setting, text, name)
    after = Config(config.path, declared, {})
    if before.get(name) == after.get(name):
        return None
    return _store_loss(before, after) if name == "store" else _space_loss(before)


def _store_loss(before: Config, after: Config) -> str | None:
    for root in before.stores:
        if root not in after.stores and (files := _files_in(root)):
            return f"the store {root} holds {files} recall files that this device would no longer find"
    return None


def _space_loss(before: Config) -> str | None:
    from memu_fs.local import sidecar_for

    for root in before.stores:
        try:
            index = sidecar_for(Store(root), before).index()
        except MemuError:
            continue
        if index is not None and (count := index.count()):
            return f"the index of {root} holds {count} vectors of the old embedding space, which must all be made anew"
    return None


def _files_in(root: Path) -> int:
    try:
        return len(Store(root).walk().entries)
    except MemuError:
        return 0
