"""The secrets that are told by what stands around them: keys in blocks, passwords in URLs, assignments.

Every pattern is tried at a literal or is bounded in length, so a search takes linear time.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from importlib import import_module

from memu_fs.secret_rules import BOUNDARY, Span
from memu_fs.secret_values import is_placeholder, looks_issued, looks_random


def known_shapes(text: str) -> Iterator[Span]:
    """Find private keys, web tokens, and the passwords that headers, URLs and assignments give away."""
    yield from _private_keys(text)
    yield from _putty_keys(text)
    yield from _web_tokens(text)
    yield from _bot_tokens(text)
    yield from _url_passwords(text)
    # Lower case, character for character: this is the one letter whose lower case is longer.
    lowered = text.replace("\u0130", "I").lower()
    yield from _authorizations(text, lowered)
    yield from _connection_passwords(text, lowered)
    yield from _assignments(text, lowered)


def _find_all(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + len(literal))


_KEY_HEAD = re.compile(r"-{4,5} ?BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_FOOT = re.compile(r"-{4,5} ?END (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/]{40}")
_KEY_LINES = re.compile(r"(?:[\s>\"',]++|\\[nr]|[A-Za-z0-9+/=]{16,128}+)*+")
_KEY_SIZE = 32_768


def _private_keys(text: str) -> Iterator[Span]:
    done = 0
    for at in _find_all(text, "PRIVATE KEY"):
        head = _KEY_HEAD.search(text, max(done, at - 60), at + 24)
        if head:
            done = _key_end(text, head.end())
            if _is_key_body(text[head.end() : done]):
                yield (head.start(), done, "private-key")


def _key_end(text: str, begin: int) -> int:
    """Where a key ends: behind its footer, or where a cut off key stops looking like one."""
    foot = text.find("PRIVATE KEY", begin, begin + _KEY_SIZE)
    match = _KEY_FOOT.search(text, max(begin, foot - 60), foot + 24) if foot >= 0 else None
    if match:
        return match.end()
    lines = _KEY_LINES.match(text, begin, begin + _KEY_SIZE)
    return begin + len(lines[0].rstrip()) if lines else begin


def _is_key_body(body: str) -> bool:
    run = _KEY_BODY.search(body)
    return run is not None and len(set(run[0])) >= 8


_PUTTY = re.compile(
    r"Private-Lines: *\d{1,3}\s+((?:[A-Za-z0-9+/=]{1,80}\s+){1,200}+)(?:Private-MAC: *[0-9a-f]{32,64})?"
)


def _putty_keys(text: str) -> Iterator[Span]:
    for at in _find_all(text, "Private-Lines:"):
        match = _PUTTY.match(text, at)
        if match and _is_key_body(match[1]):
            yield (at, at + len(match[0].rstrip()), "private-key")


_TOKEN_RUN = re.compile(r"eyJ[A-Za-z0-9_.=-]+")
_TOKEN_SIZE = 65_536


def _web_tokens(text: str) -> Iterator[Span]:
    done = 0
    for at in _find_all(text, "eyJ"):
        run = _TOKEN_RUN.match(text, at) if at >= done and BOUNDARY.match(text, at) else None
        if run:
            done = run.end()
            token = ".".join(run[0].rstrip(".").split(".")[:3])
            if token.count(".") == 2 and len(token) < _TOKEN_SIZE and _is_web_token(token):
                yield (at, at + len(token), "jwt")


def _is_web_token(token: str) -> bool:
    detector = import_module("detect_secrets.plugins.jwt").JwtTokenDetector
    return len(token.rpartition(".")[2]) >= 16 and bool(detector.is_formally_valid(token))


_TELEGRAM = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=bot))[0-9]{8,10}:(AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])")
_MAILCHIMP = re.compile(r"(?<![A-Za-z0-9])([0-9a-f]{32})-us[0-9]{1,2}(?!\w)")
_DISCORD = re.compile(r"[MNO](?<![\w-][MNO])([A-Za-z0-9_-]{23,27}+\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}+)(?![\w-])")


def _bot_tokens(text: str) -> Iterator[Span]:
    """Tokens whose own literal stands in their middle, or that have none."""
    for rule, literal, back, pattern in (
        ("telegram-token", ":AA", 10, _TELEGRAM),
        ("mailchimp-key", "-us", 32, _MAILCHIMP),
    ):
        for at in _find_all(text, literal):
            match = pattern.search(text, max(0, at - back), at + 40)
            if match and looks_issued(match[1]):
                yield (match.start(), match.end(), rule)
    for match in _DISCORD.finditer(text):
        if looks_random(match[0]):
            yield (match.start(), match.end(), "discord-token")


_DATABASES = ("postgres", "mysql", "mariadb", "mongodb", "redis", "amqp", "mssql", "sqlserver", "clickhouse")
_URL_PASSWORD = re.compile(r"://([^\s:/?#@\"'`<>()\[\]|]{0,128}):([^\s/\"'`<>()|,]{4,256})@(?=[\w\[.%$-])(?!sha\d{3}:)")
_STAND_INS = (
    "password passwd pass secret token user username admin root postgres mysql mongo redis guest testing"
    " default localhost mypassword mypass passw0rd apikey api_key"
)
_TYPICAL = frozenset(_STAND_INS.split())


def _is_given(password: str) -> bool:
    """Say whether a password in a place that is made for one is more than a stand-in."""
    return password.lower() not in _TYPICAL and password[0] not in "$<{%[" and not is_placeholder(password)


def _url_passwords(text: str) -> Iterator[Span]:
    for at in _find_all(text, "://"):
        match = _URL_PASSWORD.match(text, at)
        if match and match[2] != match[1] and _is_given(match[2]):
            scheme = text[max(0, at - 24) : at].lower()
            is_database = any(name in scheme for name in _DATABASES)
            yield (*match.span(2), "database-url" if is_database else "basic-auth-url")


_BEARER = re.compile(r"bearer\s{1,4}([a-z0-9._~+/=-]{16,4096})")
_BASIC = re.compile(r"basic\s{1,4}([a-z0-9+/]{8,512}={0,2})")
_CURL = re.compile(r"\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,64}:([^\s\"'`]{4,128})")


def _authorizations(text: str, lowered: str) -> Iterator[Span]:
    for at in _find_all(lowered, "bearer"):
        match = _BEARER.match(lowered, at)
        if match and looks_random(text[slice(*match.span(1))].rstrip(".")):
            yield (*match.span(1), "bearer-token")
    for at in _find_all(lowered, "authorization"):
        match = _BASIC.search(lowered, at, at + 560)
        if match and match.start() < at + 24 and _is_basic(text[slice(*match.span(1))]):
            yield (*match.span(1), "basic-auth-header")
    for at in _find_all(lowered, "curl "):
        match = _CURL.search(lowered, at, min(_line_end(lowered, at), at + 400))
        if match and _is_given(text[slice(*match.span(1))]):
            yield (*match.span(1), "curl-password")


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at, at + 400)
    return end if end >= 0 else at + 400


def _is_basic(encoded: str) -> bool:
    try:
        decoded = base64.b64decode(encoded, validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in decoded and _is_given(decoded.partition(":")[2])


_CONNECTION = re.compile(r"(?:password|pwd)\s{0,2}=\s{0,2}([^;\s\"'`<>]{4,128})")
_CONNECTION_PART = re.compile(r"(?:server|data source|host|uid|user id|username|user|database)\s{0,2}=[^;\n]{1,100};")


def _connection_passwords(text: str, lowered: str) -> Iterator[Span]:
    for word in ("password", "pwd"):
        for at in _find_all(lowered, word):
            match = _CONNECTION.match(lowered, at)
            if match and _is_connection(lowered, at) and _is_given(text[slice(*match.span(1))]):
                yield (*match.span(1), "connection-password")


def _is_connection(lowered: str, at: int) -> bool:
    around = lowered[max(0, at - 200) : at + 200]
    return ";" in around and _CONNECTION_PART.search(around) is not None


# A name that ends in one of these words, then a sign of assignment, then a value of one piece.
_NAME = re.compile(r"pass(?:word|wd|phrase|wort)|kennwort|contraseña|pwd|secret|token|credential|key")
_KEY_KIND = re.compile(
    r"(?:api|access|secret|private|account|auth|signing|encryption|master|client|service|license)[ _-]?$"
)
_ASSIGNED = re.compile(
    r"s?[0-9]?"
    r"(?:[\"'`*_\]\\]{0,4}[ \t]{0,8}(?::=|=>|={1,3}|!==?|:|\||\bis:?[ \t])|[ \t](?=[^\s=:./]{16}))"
    r"[*_]{0,2}[ \t]{0,8}(?:[bruf@](?=[\"']))?([\\\"'`]{0,4})([^\s\"'`\\]{10,1024})"
)
_REST = re.compile(r"[^\s\"'`\\]*")
_OPEN = re.compile(r"(?:public[ _-]?key|page|next|sync|continuation|cancel(?:lation)?|resume|cursor)[_-]?$")
# An unquoted value ends at a sign that separates, or at the next name that has a value of its own.
_NEXT = re.compile(rf"[&;,|<>]|(?:{_NAME.pattern})s?[0-9]?[=:]", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:[.:]{1,2}[A-Za-z_$][\w$]*)+[;,)]?$|[^()\[\]{}]*[(\[{]")


def _assignments(text: str, lowered: str) -> Iterator[Span]:
    name = _NAME.search(lowered)
    while name:
        done = name.end()
        match = _ASSIGNED.match(lowered, done) if _is_telling(lowered, name) else None
        if match:
            start, end = match.span(2)
            first = _first_value(text[start:end], is_quoted=bool(match[1]))
            if _is_assigned(first, is_quoted=bool(match[1])):
                done = _value_end(text, end, ".,;:)*_]}|" if not match[1] else "")
                yield (start, done, _assigned_rule(lowered, name.start(), start))
        name = _NAME.search(lowered, done)


def _is_telling(lowered: str, name: re.Match[str]) -> bool:
    begin = name.start()
    if name[0] == "key":
        return _KEY_KIND.search(lowered, max(0, begin - 12), begin) is not None
    return _OPEN.search(lowered, max(0, begin - 16), begin) is None


def _first_value(value: str, *, is_quoted: bool) -> str:
    return value if is_quoted else _NEXT.split(value, maxsplit=1)[0].rstrip(".)*_]}")


def _is_assigned(value: str, *, is_quoted: bool) -> bool:
    return looks_random(value) and (is_quoted or not _CODE.match(value))


def _value_end(text: str, at: int, punctuation: str) -> int:
    """Where a value ends that reaches to `at` at least, less the punctuation around it."""
    rest = _REST.match(text, at)
    end = rest.end() if rest else at
    while text[end - 1] in punctuation:
        end -= 1
    return end


def _assigned_rule(lowered: str, begin: int, value: int) -> str:
    name = lowered[max(0, begin - 16) : value]
    is_aws = "aws" in name or re.search("secret[ _-]?access[ _-]?key", name)
    return "aws-secret-key" if is_aws and "key" in name else "assigned-secret"
