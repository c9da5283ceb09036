"""Servers that speak the OpenAI embeddings protocol, and what is known of their models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Preset:
    """One provider."""

    name: str
    url: str
    model: str  #: the default
    key_variable: str  #: where the provider's own tools keep the key
    needs_key: bool = True
    document: Mapping[str, str] = field(default_factory=dict)  #: sent with documents, for models that know it
    query: Mapping[str, str] = field(default_factory=dict)  #: sent with a query
    typed: tuple[str, ...] = ("",)  #: beginnings of the model names that know ``document`` and ``query``
    size: str = "dimensions"  #: the field that asks for a dimension


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("openai", "https://api.openai.com/v1", "text-embedding-3-small", "OPENAI_API_KEY"),
        Preset(
            "jina",
            "https://api.jina.ai/v1",
            "jina-embeddings-v3",
            "JINA_API_KEY",
            document={"task": "retrieval.passage"},
            query={"task": "retrieval.query"},
            typed=("jina-embeddings-v3", "jina-embeddings-v4", "jina-embeddings-v5"),
        ),
        Preset(
            "voyage",
            "https://api.voyageai.com/v1",
            "voyage-3.5",
            "VOYAGE_API_KEY",
            document={"input_type": "document"},
            query={"input_type": "query"},
            size="output_dimension",
        ),
        Preset(
            "doubao",
            "https://ark.cn-beijing.volces.com/api/v3",
            "doubao-embedding-text-240715",
            "ARK_API_KEY",
        ),
        Preset(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "openai/text-embedding-3-small",
            "OPENROUTER_API_KEY",
        ),
        Preset("ollama", "http://127.0.0.1:11434/v1", "nomic-embed-text", "OLLAMA_API_KEY", needs_key=False),
        Preset("vllm", "http://127.0.0.1:8000/v1", "BAAI/bge-m3", "VLLM_API_KEY", needs_key=False),
    )
}

#: What a model gives unless asked otherwise; a model that is not here is asked once.
DIMENSIONS: dict[str, int] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "openai/text-embedding-3-small": 1536,
    "openai/text-embedding-3-large": 3072,
    "jina-embeddings-v2-base-en": 768,
    "jina-embeddings-v3": 1024,
    "jina-embeddings-v4": 2048,
    "voyage-3.5": 1024,
    "voyage-3.5-lite": 1024,
    "voyage-3-large": 1024,
    "voyage-code-3": 1024,
    "doubao-embedding-text-240715": 2560,
    "nomic-embed-text": 768,
    "mxbai-embed-large": 1024,
    "all-minilm": 384,
    "bge-m3": 1024,
    "BAAI/bge-m3": 1024,
}

#: Words that some models were trained to see before a document and before a query, by a part of their name.
PREFIXES: dict[str, tuple[str, str]] = {
    "nomic-embed-text": ("search_document: ", "search_query: "),
    "multilingual-e5": ("passage: ", "query: "),
}


def prefixes(model: str) -> tuple[str, str]:
    """Give what goes before a document and before a query."""
    return next((pair for part, pair in PREFIXES.items() if part in model), ("", ""))
