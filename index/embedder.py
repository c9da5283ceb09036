"""What turns text into vectors: the protocol, its settings, and the factory that reads a name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memu_fs.config import expanded
from memu_fs.errors import MemuError, UsageError
from memu_fs.index.base import Vector
from memu_fs.index.presets import PRESETS, Preset, prefixes

KEY_VARIABLE = "MEMU_FS_EMBEDDER_KEY"


class EmbedderError(MemuError):
    """Texts could not be embedded."""


class UnknownEmbedderError(UsageError):
    """The setting names an embedder that does not exist."""

    def __init__(self, name: str) -> None:
        known = ", ".join(["minilm", "fastembed:<model>", "hashing", *(f"{preset}[:<model>]" for preset in PRESETS)])
        super().__init__(f"There is no embedder {name!r}. Set one of: {known}.")


class MissingKeyError(UsageError):
    """The provider wants a key and none is set."""

    def __init__(self, preset: Preset) -> None:
        super().__init__(f"{preset.name} needs a key: set {KEY_VARIABLE} or {preset.key_variable}.")


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """Which embedder a device uses, and how to reach it."""

    embedder: str = "minilm"  #: ``minilm``, ``hashing``, ``fastembed:<model>`` or ``<preset>[:<model>]``
    url: str | None = None  #: replaces the preset's own base address
    key: str | None = field(default=None, repr=False)
    dimension: int | None = None
    timeout: float = 30.0  #: seconds for one request
    batch: int = 64  #: texts in one request
    path: str | None = None  #: folder with local weights

    def __post_init__(self) -> None:
        if self.timeout <= 0 or self.batch < 1 or (self.dimension is not None and self.dimension < 1):
            raise UsageError("The embedder's timeout, batch and dimension must be above zero.")


class Embedder(Protocol):
    """Turns texts into unit vectors of one embedding space."""

    @property
    def space(self) -> str:
        """Provider, model, dimension and, for local weights, their digest. Never an address or a key."""

    @property
    def dimension(self) -> int:
        """How long its vectors are."""

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Give one row per text; each is finite and of unit length."""

    def embed_query(self, text: str) -> Vector:
        """Give the vector of what someone looks for."""


def make_embedder(settings: EmbedderSettings, environ: Mapping[str, str] = os.environ) -> Embedder:
    """Make the embedder that the settings name; weights load and servers are asked at first use."""
    kind, _, model = settings.embedder.partition(":")
    if is_local(settings):
        return _local(model, expanded(Path(settings.path)) if settings.path else None)
    if settings.embedder == "hashing":
        from memu_fs.index.hashing import HashingEmbedder

        return HashingEmbedder(settings.dimension or 256)
    if kind in PRESETS:
        from memu_fs.index.endpoint import EndpointEmbedder

        return EndpointEmbedder(PRESETS[kind], model, settings, _key(PRESETS[kind], settings, environ))
    raise UnknownEmbedderError(settings.embedder)


def _local(model: str, folder: Path | None) -> Embedder:
    from memu_fs.index.minilm import find_minilm
    from memu_fs.index.named import find_named
    from memu_fs.index.onnx import OnnxEmbedder

    if not model:
        return OnnxEmbedder(lambda: find_minilm(folder))
    return OnnxEmbedder(lambda: find_named(model, folder), prefixes(model))


def is_local(settings: EmbedderSettings) -> bool:
    """Say whether the model runs on this machine, inside our own processes."""
    kind, _, model = settings.embedder.partition(":")
    return settings.embedder == "minilm" or (kind == "fastembed" and bool(model))


def _key(preset: Preset, settings: EmbedderSettings, environ: Mapping[str, str]) -> str | None:
    """Find the key. The provider's own variable goes to the provider's own address alone."""
    key = settings.key or environ.get(KEY_VARIABLE)
    if not key and not settings.url:
        key = environ.get(preset.key_variable)
    key = (key or "").strip()
    if not key and preset.needs_key and not settings.url:
        raise MissingKeyError(preset)
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageError("The embedder's key holds spaces or characters that no key has: set it again.")
    return key or None


def unit(vectors: NDArray[Any], origin: str) -> Vector:
    """Scale vectors to length one; refuse those that point nowhere."""
    values = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths < 1e-12).any():
        raise EmbedderError(f"{origin} gave a vector that is zero or not finite: check the model.")
    return np.asarray(values / lengths, dtype=np.float32)


def clean(text: str) -> str:
    """Replace what UTF-8 cannot carry, such as halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode("utf-8")
