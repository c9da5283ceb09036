"""What is recalled by default."""

from __future__ import annotations

import pytest

from memu_fs.trust import CONFLICT, FORGOTTEN, is_recalled

TODAY = "2026-05-31"


@pytest.mark.parametrize(
    ("status", "recalled"),
    [
        ("active", True),
        ("unverified", True),
        ("disputed", True),
        ("superseded", False),
        ("retired", False),
        (CONFLICT, False),
        (FORGOTTEN, False),
    ],
)
def test_status_decides(status: str, recalled: bool) -> None:
    assert is_recalled(status, "", "", TODAY) is recalled


@pytest.mark.parametrize(
    ("valid_from", "valid_until", "recalled"),
    [
        ("", "", True),
        (TODAY, TODAY, True),
        ("2026-06-01", "", False),
        ("", "2026-05-30", False),
        ("2026-01-01", "2026-12-31", True),
        ("2027-01-01", "2026-01-01", False),
    ],
)
def test_dates_decide_and_both_ends_count(valid_from: str, valid_until: str, recalled: bool) -> None:
    assert is_recalled("active", valid_from, valid_until, TODAY) is recalled
