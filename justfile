setup:
    python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'

test:
    .venv/bin/pytest

lint:
    .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy

docs:
    .venv/bin/python tests/write_cli_docs.py

wheel:
    .venv/bin/python -m build --wheel
