"""The package list is kept by hand; these tests keep it honest."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

import memu_fs

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_package_folder_is_listed() -> None:
    build = PYPROJECT["tool"]["setuptools"]
    found = {
        ".".join((name, *init.parent.relative_to(ROOT / folder).parts))
        for name, folder in build["package-dir"].items()
        for init in (ROOT / folder).rglob("__init__.py")
        if init.resolve() == init
    }
    assert found == set(build["packages"])


def test_no_folder_with_code_lacks_its_init() -> None:
    folders = {
        path.parent for name in ("memu_fs", "index", "hosts", "templates") for path in (ROOT / name).rglob("*.py")
    }
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_the_version_is_said_once_and_the_same() -> None:
    assert PYPROJECT["project"]["version"] == memu_fs.__version__


@pytest.mark.parametrize("name", ["index", "hosts", "templates"])
def test_the_links_lead_to_the_folders_beside_the_package(name: str) -> None:
    link = ROOT / "memu_fs" / name
    assert link.is_symlink()
    assert os.readlink(link) == f"../{name}"  # noqa: PTH115
    assert PYPROJECT["tool"]["setuptools"]["package-dir"][f"memu_fs.{name}"] == name


def test_only_memu_fs_is_installed_at_the_top() -> None:
    assert {name.split(".")[0] for name in PYPROJECT["tool"]["setuptools"]["packages"]} == {"memu_fs"}


def test_types_are_shipped() -> None:
    assert (ROOT / "memu_fs/py.typed").is_file()
    assert "py.typed" in PYPROJECT["tool"]["setuptools"]["package-data"]["memu_fs"]
