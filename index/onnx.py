"""Models that run on this machine, inside our own process: found, opened by fastembed, and run."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from memu_fs.index.base import Vector
from memu_fs.index.embedder import clean, unit

_LONGEST = 65_536  # characters; more than any model's window, and a tokenizer reads all it is given
_registry = Lock()


@dataclass(frozen=True, slots=True)
class Weights:
    """A model that was found: what it is, and how to open it."""

    name: str
    dimension: int
    digest: str
    open: Callable[[], Any]


class OnnxEmbedder:
    """Embeds with a model of this machine, loaded at first use.

    Each text runs alone, one per core: nothing is padded, memory stays small, and other work on the machine
    costs least. A text has the same vector whatever it is embedded with.
    """

    def __init__(self, find: Callable[[], Weights], prefix: tuple[str, str] = ("", "")) -> None:
        self._find = find
        self._document, self._query = prefix
        self._weights: Weights | None = None
        self._model: Any = None
        self._lock = Lock()

    @property
    def space(self) -> str:
        """Name, dimension and digest of the weights."""
        weights = self._found()
        return f"fastembed:{weights.name}:{weights.dimension}:{weights.digest[:12]}"

    @property
    def dimension(self) -> int:
        """How long its vectors are."""
        return self._found().dimension

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Give one row per text."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        model = self._loaded()

        def embed(text: str) -> Vector:
            return _first(model.passage_embed([self._document + clean(text[:_LONGEST])]))

        with ThreadPoolExecutor(min(len(texts), cores())) as pool:
            return unit(np.stack(list(pool.map(embed, texts))), self.space)

    def embed_query(self, text: str) -> Vector:
        """Give the vector of what someone looks for."""
        query = self._query + clean(text[:_LONGEST])
        return unit(_first(self._loaded().query_embed([query])), self.space)

    def _found(self) -> Weights:
        with self._lock:
            self._weights = self._weights or self._find()
            return self._weights

    def _loaded(self) -> Any:
        weights = self._found()
        with self._lock:
            self._model = self._model or weights.open()
            return self._model


def open_folder(folder: Path, model_file: str, pooling: str) -> Any:
    """Open a model that fastembed does not list; its vectors are pooled as ``pooling`` says."""
    text_embedding = import_fastembed()
    from fastembed.common.model_description import ModelSource, PoolingType

    name = f"{folder / model_file} {pooling}"
    with _registry:
        if name.lower() not in {model["model"].lower() for model in text_embedding.list_supported_models()}:
            text_embedding.add_custom_model(
                model=name,
                pooling=PoolingType[pooling],
                normalization=True,
                sources=ModelSource(url="file:"),  # one must be named; none is asked
                dim=0,
                model_file=model_file,
            )
    return open_listed(name, folder)


def open_listed(name: str, folder: Path) -> Any:
    """Open a model that fastembed lists, from files that are already here."""
    # One thread in a run: texts, not matrices, are shared out among the cores.
    return import_fastembed()(name, specific_model_path=str(folder), threads=1)


def import_fastembed() -> Any:
    """Import fastembed's text embedding; neither it nor what it brings may write to stderr."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns whenever git is started
    import onnxruntime  # type: ignore[import-untyped]
    from loguru import logger

    onnxruntime.set_default_logger_severity(4)
    logger.disable("fastembed")
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    from fastembed import TextEmbedding

    return TextEmbedding


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def sha256(paths: Iterable[Path]) -> str:
    """Digest the bytes of files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
    return total.hexdigest()


def _first(vectors: Iterable[Vector]) -> Vector:
    return next(iter(vectors))
