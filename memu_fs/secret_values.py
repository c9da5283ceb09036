"""The tests that tell a generated key from a placeholder, a word or an identifier."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3}|…|_{3,}|0{8,}|your|example|change[-_]?me|placeholder|dummy|sample|redacted|replace"
    r"|^insert|^enter|^todo|^fake|^test[-_]|^<|\$\{|\{\{|^\$[A-Za-z_(]|^%[A-Za-z_]+%?$|^%\(|^\{[^}]*\}?$"
    r"|process\.env|os\.environ|getenv|env\.[A-Z]|12345678|abcdefgh",
    re.IGNORECASE,
)

# The pairs of neighbouring letters that make up four fifths of English words and identifiers.
_PAIRS = (
    "ab ac ad ai al am an ap ar as at ca ce ch ck cl co ct da de di do ea ec ed ee ef el em en ep er es "
    "et ex fa fi fo fr ge gs ha he hi ho ic il im in io ir is it ke la le lf li ll lo ls lt lu ma me mo "
    "mp na nc nd ne ng ni no ns nt ob oc od om on op or os ot ou pa pe pl po pr pt ra re rg ri rn ro rr "
    "rs rt ry se si so sp ss st su ta te th ti to tr ts tu ty ue ul um un ur us ut va ve wi xt yp "
)
_COMMON = frozenset(_PAIRS.split())
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_UUID_OR_DATE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?:19|20)\d\d-\d\d-\d\d", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]{16,}")
_NOT_A_KEY = re.compile(
    r"0x|sha(?:1|224|256|384|512)\b|md5\b|v?\d+\.\d+\.|[a-z][a-z0-9+.-]{1,12}://|\.{0,2}/\w+/|~/",
    re.IGNORECASE,
)


def is_placeholder(value: str) -> bool:
    """Say whether a value stands for a secret instead of being one."""
    return bool(_PLACEHOLDER.search(value)) or len(set(value)) < 5


def is_like_words(value: str, limit: float) -> bool:
    """Say whether more than `limit` of the neighbouring characters are pairs that words are made of."""
    pieces = (piece.lower() for piece in _PIECE.findall(value))
    common = sum(piece[i : i + 2] in _COMMON for piece in pieces for i in range(len(piece) - 1))
    return common > limit * (len(value) - 1)


def looks_issued(tail: str) -> bool:
    """Say whether what follows a known prefix was issued: neither a placeholder nor words."""
    return not is_placeholder(tail) and len(set(tail)) >= 8 and not is_like_words(tail, 0.5)


def looks_random(value: str) -> bool:
    """Say whether a value reads like a generated key or password, with nothing but itself to go by."""
    if len(value) < 10 or is_placeholder(value) or _NOT_A_KEY.match(value) or _UUID_OR_DATE.search(value):
        return False
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() and c.isascii() for c in value)
    if letters < 3 or (digits == 0 and len(value) < 20) or len(set(value)) < 7:
        return False
    if _HEX.fullmatch(value):
        return digits > 0
    pieces = _PIECE.findall(value)
    return letters + digits < 5 * len(pieces) and not is_like_words(value, 0.36)
