"""A reader sees what is shared, what is its project's and what is its agent's, and nothing else."""

from __future__ import annotations

import pytest

from memu_fs.scope import EVERYTHING, BadScopeError, Scope, scope_of

SHARED, API, API_V2, DEEP = "", "projects/acme/api", "projects/acme/api-v2", "projects/acme/api/ops"
CODEX, CODEX_2 = "agents/codex", "agents/codex-2"
ALL = (SHARED, API, API_V2, DEEP, CODEX, CODEX_2)


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        (Scope(), {SHARED}),
        (Scope(project="acme/api"), {SHARED, API, DEEP}),
        (Scope(project="acme/api-v2"), {SHARED, API_V2}),
        (Scope(project="api"), {SHARED}),
        (Scope(project="acme/ap"), {SHARED}),
        (Scope(project="codex"), {SHARED}),
        (Scope(agent="codex"), {SHARED, CODEX}),
        (Scope(agent="acme/api"), {SHARED}),
        (Scope(project="acme/api", agent="codex"), {SHARED, API, DEEP, CODEX}),
        (EVERYTHING, set(ALL)),
    ],
)
def test_who_sees_what(scope: Scope, seen: set[str]) -> None:
    assert {value for value in ALL if scope.sees(value)} == seen
    assert scope.visible(ALL) == (None if scope.everything else tuple(value for value in ALL if value in seen))


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("memory/a.md", ""),
        ("memory/ops/a.md", ""),
        ("memory/projects.md", ""),
        ("memory/projects/a.md", ""),
        ("memory/projects/acme/a.md", "projects/acme"),
        ("memory/projects/github.com/acme/api/a.md", "projects/github.com/acme/api"),
        ("memory/agents/codex/a.md", "agents/codex"),
        ("memory/agents/codex/deep/a.md", "agents/codex"),
        ("skill/projects/acme/deploy/SKILL.md", "projects/acme/deploy"),
        ("memory/ops/projects/acme/a.md", ""),
        ("memory/Projects/acme/a.md", "projects/acme"),
        ("memory/projects/my%3Aproject/a.md", "projects/my:project"),
        ("memory/projects/cafe\u0301/a.md", "projects/caf\u00e9"),
        ("memory/projects/acme%2Fapi/a.md", "projects/acme%2Fapi"),
    ],
)
def test_scope_is_where_the_file_lies(path: str, scope: str) -> None:
    assert scope_of(path) == scope


@pytest.mark.parametrize(
    ("texts", "scope"),
    [
        ([], Scope()),
        (["shared"], Scope()),
        (["all"], EVERYTHING),
        (["project:acme/api"], Scope("acme/api")),
        (["project:/acme/api/", "agent:codex"], Scope("acme/api", "codex")),
        (["shared", "agent:codex"], Scope(None, "codex")),
        (["project:cafe\u0301"], Scope("caf\u00e9")),
        (["project:a:b"], Scope("a:b")),
    ],
)
def test_scopes_are_read(texts: list[str], scope: Scope) -> None:
    assert Scope.parse(texts) == scope


@pytest.mark.parametrize(
    "text", ["", "everyone", "ALL", "project", "project:", "project:/", "agent:", "user:x", " all", "projects:x"]
)
def test_what_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadScopeError, match="project:NAME"):
        Scope.parse([text])


def test_two_projects_at_once_are_refused() -> None:
    with pytest.raises(BadScopeError):
        Scope.parse(["project:a", "project:b"])
