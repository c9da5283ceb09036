"""Models that a setting names: those that fastembed lists, and any folder with ONNX weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from memu_fs.index.embedder import EmbedderError
from memu_fs.index.onnx import Weights, import_fastembed, open_folder, open_listed, sha256


class ModelNotLoadedError(EmbedderError):
    """A model that a setting names cannot be found or read."""

    def __init__(self, name: str, fault: str) -> None:
        reason = " ".join(fault.split()).rstrip(".")
        super().__init__(f"The model {name} cannot be loaded: {reason}. Set embedder_path to a folder with its files.")


def find_named(name: str, folder: Path | None = None) -> Weights:
    """Find a model. One that is not here is downloaded, unless ``folder`` says where its files are."""
    with _told(name):
        listed = _listed(name)
        if listed is None and folder is None:
            raise ModelNotLoadedError(name, "fastembed does not list it")
        if listed is not None:
            home = folder or _download(listed)
            if (home / listed.model_file).is_file():
                return _as_listed(name, listed, home)
            folder = home
        assert folder is not None
        return _as_folder(name, folder)


def _as_listed(name: str, listed: Any, folder: Path) -> Weights:
    def load() -> Any:
        with _told(name):
            return open_listed(listed.model, folder)

    files = [folder / file for file in (listed.model_file, *listed.additional_files)]
    return Weights(name, listed.dim, sha256(file for file in files if file.is_file()), load)


def _as_folder(name: str, folder: Path) -> Weights:
    files = [file for file in ("model.onnx", "onnx/model.onnx") if (folder / file).is_file()]
    if not files:
        raise ModelNotLoadedError(name, f"{folder} has no model.onnx")
    json.loads((folder / "tokenizer.json").read_text("utf-8"))  # its own parser raises nothing one can catch
    model = open_folder(folder, files[0], _pooling(folder))
    dimension = len(next(iter(model.embed(["size"]))))
    return Weights(name, dimension, sha256([folder / files[0]]), lambda: model)


def _pooling(folder: Path) -> str:
    """Read how sentence-transformers pools this model; most take the mean."""
    path = folder / "1_Pooling" / "config.json"
    setting = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return "CLS" if setting.get("pooling_mode_cls_token") else "MEAN"


def _listed(name: str) -> Any:
    try:
        return import_fastembed()._get_model_description(name)
    except ValueError:
        return None


def _download(listed: Any) -> Path:
    cache = os.environ.get("FASTEMBED_CACHE_PATH") or user_cache_path("memu-fs") / "models"
    Path(cache).mkdir(parents=True, exist_ok=True)
    try:
        folder: Path = import_fastembed().download_model(listed, str(cache), retries=1)
    except ValueError as error:
        raise ModelNotLoadedError(listed.model, "it is not here and could not be downloaded") from error
    return folder


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Turn what the libraries raise about bad or missing files into one sentence."""
    import_fastembed()
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # type: ignore[import-untyped]

    broken = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoModel)
    missing = (state.NoSuchFile, state.NotImplemented, state.RuntimeException)
    try:
        yield
    except (*broken, *missing, ValueError, OSError) as error:
        raise ModelNotLoadedError(name, str(error)) from error
