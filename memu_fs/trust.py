"""Status and validity: what is recalled by default, and what is flagged."""

from __future__ import annotations

STATUSES = ("active", "unverified", "disputed", "superseded", "retired")
#: Recalled unless the caller asks for everything.
RECALLED = ("active", "unverified", "disputed")
#: Not written in front matter: a copy that a merge kept, and text that was forgotten.
CONFLICT, FORGOTTEN = "conflict", "forgotten"
ORIGINS = ("human", "agent", "import")


def is_recalled(status: str, valid_from: str, valid_until: str, today: str) -> bool:
    """Say whether a file is recalled by default on ``today``. Dates are ISO strings; both ends are included."""
    return status in RECALLED and valid_from <= today and (not valid_until or today <= valid_until)
