"""The factory and what all embedders promise."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from memu_fs.errors import UsageError
from memu_fs.index.embedder import EmbedderError, EmbedderSettings, clean, make_embedder, unit
from memu_fs.index.hashing import HashingEmbedder


def test_an_unknown_name_lists_what_there_is() -> None:
    for name in ("word2vec", "fastembed:", "minilm:large", ""):
        with pytest.raises(UsageError, match=r"Set one of: minilm, .*hashing, .*ollama\[:<model>\]"):
            make_embedder(EmbedderSettings(name))


def test_a_provider_that_wants_a_key_names_the_variables() -> None:
    with pytest.raises(UsageError, match="MEMU_FS_EMBEDDER_KEY or VOYAGE_API_KEY"):
        make_embedder(EmbedderSettings("voyage"), {})


def test_the_providers_own_variable_is_a_fallback_for_its_own_address_alone() -> None:
    keys = {"OPENAI_API_KEY": "k-own"}
    own = make_embedder(EmbedderSettings("openai"), keys)
    elsewhere = make_embedder(EmbedderSettings("openai", url="http://127.0.0.1:1/v1"), keys)
    assert vars(own)["_key"] == "k-own"
    assert vars(elsewhere)["_key"] is None


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError) as failure:
        make_embedder(EmbedderSettings("openai", key="abc\ndef"), {})
    assert "abc" not in str(failure.value)


def test_settings_do_not_show_the_key() -> None:
    assert "quiet" not in repr(EmbedderSettings("openai", key="quiet"))


@pytest.mark.parametrize("wrong", [{"timeout": 0.0}, {"batch": 0}, {"dimension": -1}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="above zero"):
        EmbedderSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["localhost:1234", "ftp://host/v1", "http://", "http://host:99999/v1"])
def test_an_address_that_cannot_work_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="must look like"):
        make_embedder(EmbedderSettings("vllm", url=url), {})


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError, match="take it out") as failure:
        make_embedder(EmbedderSettings("vllm", url="http://me:pass@host/v1"), {})
    assert "pass@" not in str(failure.value)


def test_each_space_names_provider_model_and_dimension() -> None:
    def space(embedder: str, dimension: int | None = None) -> str:
        return make_embedder(EmbedderSettings(embedder, key="k", dimension=dimension), {}).space

    assert space("openai") == "openai:text-embedding-3-small:1536"
    assert space("openai", 512) == "openai:text-embedding-3-small:512"
    assert space("ollama:qwen3-embedding:0.6b", 1024) == "ollama:qwen3-embedding:0.6b:1024"
    assert space("hashing") == "hashing:words-trigrams-1:256"
    assert space("minilm") == "fastembed:all-MiniLM-L6-v2-int8:384:8199be6f699a"


@pytest.mark.parametrize("bad", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_vector_that_points_nowhere_is_refused(bad: list[float]) -> None:
    with pytest.raises(EmbedderError, match="the model gave a vector"):
        unit(np.array([[1.0, 2.0], bad]), "the model")


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert clean("a\ud800b é 漢") == "a?b é 漢"


def test_hashing_gives_unit_vectors_even_for_nothing() -> None:
    rows = HashingEmbedder().embed_documents(["", "!?", "deploy the api", "漢字", "\ud800"])
    assert rows.shape == (5, 256)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert (rows[0] == rows[1]).all()
    assert HashingEmbedder().embed_documents([]).shape == (0, 256)


def test_hashing_puts_texts_with_shared_words_together() -> None:
    embedder = HashingEmbedder()
    near, far = embedder.embed_documents(["Deploying the api", "Grandmother's plum cake"])
    query = embedder.embed_query("deploy api")
    assert query @ near > query @ far + 0.3


def test_hashing_is_the_same_in_every_process() -> None:
    code = (
        "from memu_fs.index.hashing import HashingEmbedder;"
        "import sys; sys.stdout.buffer.write(HashingEmbedder(64).embed_query('same words').tobytes())"
    )
    seen = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in "12"}
    assert seen == {HashingEmbedder(64).embed_query("same words").tobytes()}


def test_making_an_embedder_imports_no_model_and_no_http() -> None:
    code = (
        "import sys; from memu_fs.index.embedder import *;"
        "make_embedder(EmbedderSettings()).space; make_embedder(EmbedderSettings('ollama')).space;"
        "print(sorted({'fastembed', 'onnxruntime', 'httpx', 'lancedb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
