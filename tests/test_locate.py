"""One rule says which store a command means and which project it asks for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memu_fs.config import Config, load_config
from memu_fs.locate import (
    MissingStoreError,
    NoStoreError,
    derive_scope,
    find_stores,
    is_own_repository,
    project_name,
    store_around,
)
from memu_fs.scope import Scope
from memu_fs.store import NotAStoreError

if TYPE_CHECKING:
    from conftest import MakeStore, RunGit


def roots(config: Config, named: list[Path], cwd: Path) -> list[str]:
    return [store.root.name for store in find_stores(config, named, cwd)]


def test_named_then_environment_then_around_then_configured(store: MakeStore, isolation: Path, tmp_path: Path) -> None:
    made = {name: store(folder=name).root for name in ("named", "variable", "around", "configured")}
    (made["around"] / ".memu-fs.toml").write_text("format = 1\n")
    (isolation / "config.toml").write_text(f'store = "{made["configured"]}"\n')
    file = {"MEMU_FS_CONFIG": str(isolation / "config.toml")}
    variable = {**file, "MEMU_FS_STORE": str(made["variable"])}
    inside = made["around"] / "memory"
    assert roots(load_config(variable), [made["named"]], inside) == ["named"]
    assert roots(load_config(variable), [], inside) == ["variable"]
    assert roots(load_config(file), [], inside) == ["around"]
    assert roots(load_config(file), [], tmp_path) == ["configured"]
    with pytest.raises(NoStoreError, match="memu-fs init FOLDER"):
        find_stores(load_config({}), [], tmp_path)


def test_several_stores_keep_their_order_and_count_once(store: MakeStore, tmp_path: Path) -> None:
    one, two = store(folder="one").root, store(folder="two").root
    assert roots(load_config({"MEMU_FS_STORE": f"{two}{os.pathsep}{one}"}), [], tmp_path) == ["two", "one"]
    assert roots(load_config({}), [one, two, one], tmp_path) == ["one", "two"]


def test_a_folder_that_is_missing_or_no_store_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MissingStoreError, match="memu-fs init"):
        find_stores(load_config({}), [tmp_path / "missing"], tmp_path)
    with pytest.raises(NotAStoreError):
        find_stores(load_config({}), [tmp_path], tmp_path)


def test_only_a_marker_makes_a_store_around_a_folder(store: MakeStore) -> None:
    made = store()
    assert store_around(made.root / "memory") is None
    (made.root / ".memu-fs.toml").write_text("format = 1\n")
    assert store_around(made.root / "memory" / "deep") == made.root


def test_a_project_is_its_remote_then_a_name_of_this_device_then_its_folder(
    store: MakeStore, git: RunGit, tmp_path: Path, isolation: Path
) -> None:
    made, project = store(), tmp_path / "api"
    (project / "deep").mkdir(parents=True)
    config = load_config({})
    assert project_name(config, made, project) == "api"
    git("init", "--quiet", cwd=project)
    assert project_name(config, made, project / "deep") == "api"
    (isolation / "config.toml").write_text(f'[projects]\n"{project}" = "mine"\n"github.com/acme/api" = "renamed"\n')
    named = load_config({"MEMU_FS_CONFIG": str(isolation / "config.toml")})
    assert project_name(named, made, project / "deep") == "mine"
    git("remote", "add", "origin", "git@github.com:acme/api.git", cwd=project)
    assert project_name(config, made, project / "deep") == "github.com/acme/api"
    assert project_name(named, made, project) == "renamed"


def test_inside_the_store_there_is_no_project(git_store: MakeStore) -> None:
    made = git_store()
    for folder in (made.root, made.root / "memory"):
        assert derive_scope(load_config({}), made, folder, "codex") == Scope(None, "codex")


def test_a_store_in_a_projects_repository_is_read_for_that_project(
    store: MakeStore, git: RunGit, tmp_path: Path
) -> None:
    made = store(folder="api/notes")
    git("init", "--quiet", cwd=tmp_path / "api")
    assert project_name(load_config({}), made, tmp_path / "api") == "api"
    assert not is_own_repository(made)


def test_a_store_may_be_a_repository_by_itself(git_store: MakeStore) -> None:
    assert is_own_repository(git_store())


def test_a_folder_named_like_a_host_is_not_that_host(store: MakeStore, tmp_path: Path) -> None:
    (tmp_path / "github.com").mkdir()
    assert project_name(load_config({}), store(), tmp_path / "github.com") == "github-com"
