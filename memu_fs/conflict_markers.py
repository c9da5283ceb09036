"""Git conflict markers that a plain ``git pull`` leaves in a file."""

from __future__ import annotations

import re

_MARKER_LINE = re.compile(r"(?m)^(?:<{7} .*|={7}|\|{7} .*|>{7} .*)\r?$")
_OPENING = re.compile(r"(?m)^<{7} ")
_CLOSING = re.compile(r"(?m)^>{7} ")


def find_markers(body: str) -> list[int]:
    """Give the 0-based lines of a body that hold markers; [] when it is not in conflict."""
    opening = _OPENING.search(body)
    if not opening or not _CLOSING.search(body, opening.end()):
        return []
    return [number for number, line in enumerate(body.split("\n")) if _MARKER_LINE.fullmatch(line)]


def blank_markers(body: str) -> str:
    """Give the body with spaces in the place of the marker lines, so that every other character keeps its place."""
    return _MARKER_LINE.sub(lambda match: " " * len(match[0]), body) if find_markers(body) else body
