"""Settings resolve in one order, and the user's file is changed with care."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from memu_fs.cli.app import app
from memu_fs.config import BY_NAME, SETTINGS, Config, ConfigError, UnknownSettingError, load_config, variable_of
from memu_fs.config_file import IdentityLossError, SecretArgumentError, first_line, set_value, unset_value
from memu_fs.errors import MemuError
from memu_fs.identity import loss_of_change

if TYPE_CHECKING:
    from conftest import MakeStore

Configure = Callable[..., Config]
KEY = "embedder_key"


@pytest.fixture
def configure(isolation: Path) -> Configure:
    def write(text: str | bytes = "", environment: dict[str, str] | None = None) -> Config:
        path = isolation / "config.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_config({"MEMU_FS_CONFIG": str(path), **(environment or {})})

    return write


def test_nothing_is_set_on_a_new_device(isolation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMU_FS_DAEMON")
    config = load_config()
    assert config.path == isolation / ".config/memu-fs/config.toml"
    assert not config.path.exists()
    assert {config.source(setting.name) for setting in SETTINGS} == {"default"}
    assert config.stores == ()


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(configure: Configure) -> None:
    config = configure("embedder_timeout = 5\nembedder = 'hashing'\n", {"MEMU_FS_EMBEDDER_TIMEOUT": "7"})
    assert (config.number("embedder_timeout"), config.source("embedder_timeout")) == (7.0, "environment")
    assert (config.get("embedder"), config.source("embedder")) == ("hashing", "file")
    assert (config.get("freshness_seconds"), config.source("freshness_seconds")) == (2.0, "default")


def test_an_empty_variable_counts_as_unset(configure: Configure) -> None:
    assert configure("embedder = 'hashing'\n", {"MEMU_FS_EMBEDDER": ""}).source("embedder") == "file"


def test_stores_are_one_text_a_list_or_a_path_variable(configure: Configure) -> None:
    assert configure('store = "/a"\n').stores == (Path("/a"),)
    assert configure('store = ["/a", "/b"]\n').stores == (Path("/a"), Path("/b"))
    assert configure("", {"MEMU_FS_STORE": f"/a{os.pathsep}/b"}).stores == (Path("/a"), Path("/b"))


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("embedder_timeout", '"soon"', "a number of 0 or more"),
        ("embedder_timeout", "-1", "a number of 0 or more"),
        ("embedder_timeout", "nan", "a number of 0 or more"),
        ("embedder_timeout", "inf", "a number of 0 or more"),
        ("embedder_timeout", "true", "a number of 0 or more"),
        ("embedder_dimension", "0", "a whole number above 0"),
        ("embedder_dimension", "1.5", "a whole number above 0"),
        ("embedder_dimension", "[1]", "a whole number above 0"),
        ("embedder", "['a']", "a text"),
        ("embedder", "{a = 1}", "a text"),
        ("embedder", "true", "a text"),
    ],
)
def test_a_value_that_does_not_fit_names_file_and_key(configure: Configure, name: str, value: str, wanted: str) -> None:
    config = configure(f"{name} = {value}\n")
    with pytest.raises(ConfigError) as caught:
        config.get(name)
    assert str(caught.value) == f"{name} in {config.path} must be {wanted}."


def test_a_bad_variable_is_named(configure: Configure) -> None:
    with pytest.raises(ConfigError, match=r"^MEMU_FS_EMBEDDER_DIMENSION must be a whole number"):
        configure("", {"MEMU_FS_EMBEDDER_DIMENSION": "big"}).get("embedder_dimension")


@pytest.mark.parametrize(
    "text", ["a = ", b"\xff", "a = " + "[" * 10_000, "a = 1\na = 2\n"], ids=["cut", "bytes", "deep", "twice"]
)
def test_a_file_that_is_no_toml_is_a_sentence(configure: Configure, text: str | bytes) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read"):
        configure(text)


def test_names_of_projects_must_be_a_table(configure: Configure) -> None:
    assert configure('[projects]\n"/work/api" = "api"\n').projects == {"/work/api": "api"}
    with pytest.raises(ConfigError, match="must be a table"):
        _ = configure('projects = "x"\n').projects


def test_setting_keeps_comments_unknown_keys_and_order(configure: Configure) -> None:
    text = '# mine\nembedder = "hashing"  # fast\nunknown = [1,  2]\n\n[projects]\n"/work/api" = "api"\n'
    config = configure(text)
    set_value(config, "embedder", "minilm")
    assert config.path.read_text() == text.replace('"hashing"', '"minilm"')
    set_value(config, "embedder_timeout", "5")
    unset_value(config, "embedder")
    after = load_config({"MEMU_FS_CONFIG": str(config.path)})
    assert after.declared == {"unknown": [1, 2], "embedder_timeout": 5.0, "projects": {"/work/api": "api"}}
    assert "# mine" in config.path.read_text()


def test_the_file_is_private_and_its_mode_is_told(configure: Configure) -> None:
    config = configure("")
    config.path.chmod(0o644)
    assert set_value(config, KEY, "x") == "0600"
    assert stat.S_IMODE(config.path.stat().st_mode) == 0o600


def test_a_linked_file_stays_a_link(configure: Configure, isolation: Path) -> None:
    config = configure("")
    config.path.rename(isolation / "real.toml")
    config.path.symlink_to("real.toml")
    set_value(config, "embedder", "hashing")
    assert config.path.is_symlink()
    assert (isolation / "real.toml").read_text() == 'embedder = "hashing"\n'


def test_what_cannot_be_set_changes_nothing(configure: Configure) -> None:
    config = configure("# mine\n")
    with pytest.raises(UnknownSettingError, match="embedder_timeout"):
        set_value(config, "embeder", "x")
    with pytest.raises(UnknownSettingError):
        unset_value(config, "embeder")
    with pytest.raises(ConfigError):
        set_value(config, "embedder_dimension", "big")
    assert config.path.read_text() == "# mine\n"
    config.path.write_text("a = \n")
    with pytest.raises(ConfigError, match="was not changed"):
        set_value(config, "embedder", "hashing")
    assert config.path.read_text() == "a = \n"


def test_a_value_is_the_first_line_that_is_not_empty() -> None:
    assert first_line("\n  abc \nmore\n") == "abc"
    with pytest.raises(MemuError, match="input is empty"):
        first_line(" \n")


def test_every_setting_has_its_variable_and_help() -> None:
    assert variable_of("embedder_url") == "MEMU_FS_EMBEDDER_URL"
    assert all(setting.help for setting in SETTINGS)
    assert [setting.name for setting in SETTINGS if setting.is_secret] == [KEY]
    assert BY_NAME["store"].is_identity


# What a change would leave behind


def test_leaving_a_store_with_files_is_a_loss(configure: Configure, store: MakeStore) -> None:
    made, empty = store({"memory/a.md": "x", "skill/b.md": "y"}), store(folder="empty")
    config = configure(f'store = "{made.root}"\n')
    assert "holds 2 recall files" in (loss_of_change(config, "store", str(empty.root)) or "")
    assert loss_of_change(config, "store", None)
    assert loss_of_change(config, "store", str(made.root)) is None
    assert loss_of_change(config, "store", f"{made.root}{os.pathsep}{empty.root}") is None
    assert loss_of_change(config, "embedder_timeout", "3") is None
    assert loss_of_change(configure(f'store = "{empty.root}"\n'), "store", str(made.root)) is None
    assert loss_of_change(configure(f'store = "{made.root}/gone"\n'), "store", str(made.root)) is None


def test_the_environment_of_this_process_is_never_judged(configure: Configure, store: MakeStore) -> None:
    made = store({"memory/a.md": "x"})
    config = configure("", {"MEMU_FS_STORE": str(made.root)})
    assert loss_of_change(config, "store", "/elsewhere") is None
    config = configure(f'store = "{made.root}"\n', {"MEMU_FS_STORE": "/elsewhere"})
    assert loss_of_change(config, "store", "/elsewhere")


def test_the_command_refuses_a_loss_unless_forced(store: MakeStore) -> None:
    made = store({"memory/a.md": "x"})
    run = CliRunner().invoke
    assert run(app, ["config", "set", "store", str(made.root)]).exit_code == 0
    refused = run(app, ["config", "set", "store", "/elsewhere"])
    assert isinstance(refused.exception, IdentityLossError)
    assert refused.exception.exit_code == 2
    assert isinstance(run(app, ["config", "unset", "store"]).exception, IdentityLossError)
    assert load_config().stores == (made.root,)
    assert run(app, ["config", "set", "store", "/elsewhere", "--force"]).exit_code == 0
    assert load_config().stores == (Path("/elsewhere"),)


def test_leaving_an_embedding_space_with_vectors_is_a_loss(configure: Configure, store: MakeStore) -> None:
    made = store({"memory/a.md": "Owls hunt at night.\n"})
    config = configure(f'store = "{made.root}"\nembedder = "hashing"\n')
    assert loss_of_change(config, "embedder", "minilm") is None
    variables = {"MEMU_FS_CONFIG": str(config.path)}
    assert CliRunner().invoke(app, ["index"], env=variables).exit_code == 0
    assert "1 vectors of the old embedding space" in (loss_of_change(config, "embedder", "minilm") or "")
    assert loss_of_change(config, "embedder", "hashing") is None
    refused = CliRunner().invoke(app, ["config", "set", "embedder", "minilm"], env=variables)
    assert isinstance(refused.exception, IdentityLossError)
    assert 'embedder = "hashing"' in config.path.read_text()


# Secrets


def test_a_secret_is_never_taken_from_an_argument() -> None:
    secret = "sk-" + "a1B2" * 8
    refused = CliRunner().invoke(app, ["config", "set", KEY, secret])
    assert isinstance(refused.exception, SecretArgumentError)
    assert secret not in f"{refused.output}{refused.exception}"
    assert not load_config().path.exists()


def test_a_secret_is_never_shown(isolation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-" + "a1B2" * 8
    run = CliRunner().invoke
    (isolation / "key").write_text(f"\n{secret}\n")
    outputs = [
        run(app, ["config", "set", KEY, "-"], input=f"{secret}\n").output,
        run(app, ["config", "set", KEY, "--from-file", str(isolation / "key"), "--json"]).output,
        run(app, ["config", "show"]).output,
        run(app, ["config", "show", "--json"]).output,
    ]
    assert load_config().get(KEY) == secret
    monkeypatch.setenv("MEMU_FS_EMBEDDER_KEY", secret + "x")
    outputs += [run(app, ["config", "show"]).output, run(app, ["config", "unset", KEY]).output]
    assert secret not in "".join(outputs)
    assert "mode 0600" in outputs[0]
    assert '"mode": "0600"' in outputs[1]
    assert '"value": "set"' in outputs[3]


def test_a_store_can_name_no_setting(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store({"memory/a.md": "x"})
    lines = [f'{setting.name} = "http://example.org"' for setting in SETTINGS]
    (made.root / ".memu-fs.toml").write_text("format = 1\n" + "\n".join(lines) + '\n[projects]\n"/" = "x"\n')
    monkeypatch.chdir(made.root)
    monkeypatch.delenv("MEMU_FS_DAEMON")
    config = load_config()
    assert {config.source(setting.name) for setting in SETTINGS} == {"default"}
    assert config.projects == {}
    assert made.marker.allowed_secrets == ()
