from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memu_fs.errors import MemuError
from memu_fs.secret_scan import SecretFinding, find_secrets, redact

# No text that looks like a secret stands in this file: prefixes and random tails meet at run time only.
RANDOM = random.Random(20)
ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"


def chars(count: int, alphabet: str = ALNUM) -> str:
    return "".join(RANDOM.choice(alphabet) for _ in range(count))


def b64url(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def pem(kind: str, newline: str = "\n", lines: int = 12) -> str:
    body = [chars(64, BASE64) for _ in range(lines)]
    return newline.join((f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"))


PASSWORD = "q7" + chars(12) + "#Z4"
AWS_SECRET = chars(40, BASE64)
TELEGRAM = chars(10, "123456789") + ":" + "AA" + chars(33)
DISCORD = "M" + chars(25) + "." + chars(6) + "." + chars(30)
JWT = ".".join((b64url({"alg": "HS256"}), b64url({"sub": chars(10), "iat": 1700000000}), chars(43)))

# rule -> the secret and the text around it, {} being its place
SECRETS: dict[str, list[tuple[str, str]]] = {
    "anthropic-key": [("sk-ant-" + "api03-" + chars(95), "export ANTHROPIC_API_KEY={}")],
    "openai-key": [
        ("sk-" + chars(48), "the key is {}."),
        ("sk-" + "proj-" + chars(120, ALNUM + "_-") + "a", "OPENAI_API_KEY='{}'"),
        ("sk-" + "svcacct-" + chars(60), "{}"),
    ],
    "openrouter-key": [("sk-" + "or-v1-" + chars(64, HEX), '"key": "{}"')],
    "google-key": [("AI" + "za" + chars(35), "https://maps.example.com/api?key={}&v=3")],
    "groq-key": [("gsk" + "_" + chars(52), "GROQ={}")],
    "xai-key": [("xai" + "-" + chars(80), "- {}")],
    "huggingface-token": [("hf" + "_" + chars(34, string.ascii_letters), "`{}`")],
    "replicate-token": [("r8" + "_" + chars(37), "({})")],
    "perplexity-key": [("pplx" + "-" + chars(48), "{}")],
    "voyage-key": [("pa" + "-" + chars(43), "VOYAGE {}")],
    "jina-key": [("jina" + "_" + chars(60), "use {} for jina")],
    "github-token": [
        *(("gh" + kind + "_" + chars(36), "git clone with {}") for kind in "pousr"),
        ("github" + "_pat_" + chars(22) + "_" + chars(59), "a line\\n{}\\nand one more"),
    ],
    "gitlab-token": [("gl" + "pat-" + chars(20), "{}"), ("gl" + "rt-" + chars(20), "runner {}")],
    "slack-token": [
        ("xox" + "b-" + chars(12, "123456789") + "-" + chars(12, "123456789") + "-" + chars(24), "{}"),
        (
            "https://hooks.sl" + "ack.com/services/T" + chars(8, UPPER) + "/B" + chars(8, UPPER) + "/" + chars(24),
            "{}",
        ),
    ],
    "stripe-key": [("sk" + "_live_" + chars(24), "{}"), ("rk" + "_live_" + chars(99), "pay with {}")],
    "npm-token": [("npm" + "_" + chars(36), "//registry.npmjs.org/:_authToken={}")],
    "pypi-token": [("pypi" + "-AgEIcHlwaS5vcmc" + chars(150, ALNUM + "_-") + "a", "password = {}")],
    "telegram-token": [(TELEGRAM, "{}"), (TELEGRAM, "https://api.telegram.org/bot{}/getMe")],
    "discord-token": [(DISCORD, "bot: {}")],
    "sendgrid-key": [("SG" + "." + chars(22) + "." + chars(43), "{}")],
    "mailchimp-key": [(chars(32, HEX) + "-" + "us14", "{}")],
    "twilio-key": [("S" + "K" + chars(32, HEX), "{}")],
    "digitalocean-token": [("dop" + "_v1_" + chars(64, HEX), "{}")],
    "linear-key": [("lin" + "_api_" + chars(40), "{}")],
    "notion-token": [("ntn" + "_" + chars(46), "{}"), ("secret" + "_" + chars(43), "{}")],
    "cloudflare-key": [("v1.0" + "-" + chars(24, HEX) + "-" + chars(146, HEX), "{}")],
    "aws-access-key": [("AK" + "IA" + chars(16, UPPER), "id {}"), ("AS" + "IA" + chars(16, UPPER), "{}")],
    "aws-secret-key": [
        (AWS_SECRET, "aws_secret_access_key = {}"),
        (AWS_SECRET, '"SecretAccessKey": "{}"'),
    ],
    "azure-storage-key": [
        ("Account" + "Key=" + chars(86, BASE64) + "==", "DefaultEndpointsProtocol=https;AccountName=a;{};"),
    ],
    "private-key": [
        (pem("RSA PRIVATE KEY"), "before\n{}\nafter"),
        (pem("OPENSSH PRIVATE KEY"), "{}"),
        (pem("PRIVATE KEY", "\\n") + "\\n", '{{"type": "service_account", "private_key": "{}"}}'),
        (pem("PGP PRIVATE KEY BLOCK"), "{}"),
        (pem("EC PRIVATE KEY", "\r\n", lines=3), "\r\n{}\r\n"),
    ],
    "jwt": [(JWT, "cookie {} was sent")],
    "basic-auth-url": [(PASSWORD, "git remote add origin https://ada:{}@git.acme.test/notes.git")],
    "database-url": [
        (PASSWORD, "postgresql+asyncpg://app:{}@db.internal:5432/app"),
        ("bluebird" + "42", "redis://:{}@cache:6379/0"),
    ],
    "bearer-token": [(chars(40), "curl -H 'Authorization: Bearer {}' https://acme.test")],
    "basic-auth-header": [(base64.b64encode(f"ada:{PASSWORD}".encode()).decode(), "Authorization: Basic {}")],
    "curl-password": [("blue" + "bird42!", "curl -u ada:{} https://acme.test")],
    "connection-password": [("blue" + "bird42", "Server=db;Database=app;User Id=ada;Password={};")],
    "assigned-secret": [
        (PASSWORD, 'password = "{}"'),
        (PASSWORD + ")", 'password = "{}"'),
        (PASSWORD, "DB_PASSWORD={}"),
        (PASSWORD, "- **Wifi password:** `{}`"),
        (PASSWORD, "| admin password | {} |"),
        (PASSWORD, "the password is {}"),
        (chars(32, HEX), "TWILIO_AUTH_TOKEN={}"),
        (chars(40), "CLOUDFLARE_API_TOKEN: {}"),
        (chars(24), "deploy --token {} --yes"),
        (chars(24), '{{\\"apiKey\\": \\"{}\\"}}'),
        (chars(24, LOWER), "https://acme.test/hook?id=1&secret={}"),
    ],
}
CASES = [(rule, secret, around) for rule, cases in SECRETS.items() for secret, around in cases]


@pytest.mark.parametrize(("rule", "secret", "around"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_a_secret_is_found_whole_and_named(rule: str, secret: str, around: str) -> None:
    text = f"Notes of the day.\n{around.format(secret)}\nThe end.\n"
    [found] = find_secrets(text)
    start = text.index(secret)
    assert (found.rule, found.start) == (rule, start)
    assert found.end == start + len(secret.removesuffix("\\n"))
    assert found.line == text[:start].count("\n") + 1


@pytest.mark.parametrize(("rule", "secret", "around"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_redaction_leaves_the_rule_in_place_of_the_secret(rule: str, secret: str, around: str) -> None:
    text = f"Notes of the day.\n{around.format(secret)}\nThe end.\n"
    redacted = redact(text)
    assert redacted == text.replace(secret.removesuffix("\\n"), f"[secret: {rule}]")
    assert find_secrets(redacted) == []


INNOCENT = [
    "The wifi password of the cabin is bluebird42, said the owner.",
    "password: bluebird42",
    "Passwords are rotated every 90 days; the secret is patience.",
    "export OPENAI_API_KEY=<your-key>",
    "OPENAI_API_KEY=" + "sk-" + "x" * 48,
    "ANTHROPIC_API_KEY=" + "sk-ant-" + "your-key-goes-here-please",
    "token = ${GITHUB_TOKEN_2}",
    "api_key = $OPENAI_API_KEY_V2",
    'apiKey: process.env.OPENAI_API_KEY2, secret: "changeme-please-2024"',
    'password = os.environ["DB_PASSWORD_1"]',
    "token = config.get_token2(timeout=30)",
    "token: z.string().min(32).max(64)",
    "self.access_token = response.json()['access_token']",
    "client_secret = settings.oauth2.client_secret",
    "AWS_ACCESS_KEY_ID=" + "AK" + "IA" + "IOSFODNN7EXAMPLE",
    "postgres://user:password@localhost:5432/app and https://user:pass@acme.test",
    "mysql://root:${MYSQL_PASSWORD}@db/app and redis://:<password>@cache",
    "Authorization: Bearer <token>, or Authorization: Bearer $TOKEN",
    'headers = {"Authorization": f"Bearer {access_token}"}',
    "commit " + chars(40, HEX) + " fixes the token refresh",
    "sha256:" + chars(64, HEX),
    "secret: sha256:" + chars(64, HEX),
    "id 3f0c2f4e-9d53-4f0a-8a3e-5b7c1d2e9f60 and 01J9ZK4V7M" + chars(16, UPPER),
    "token_id: 3f0c2f4e-9d53-4f0a-8a3e-5b7c1d2e9f60",
    "![dot](data:image/png;base64," + chars(4000, BASE64) + "==)",
    '"integrity": "sha512-' + chars(86, BASE64) + '=="',
    "    --hash=sha256:" + chars(64, HEX),
    "useAuthenticatedWorkspaceSessionTokenFromLocalStorageV2()",
    "token: RefreshTokenV2HandlerFactory1Bean",
    "https://github.com/acme/api/blob/" + chars(40, HEX) + "/src/token/index2.ts#L10-L20",
    "https://acme.test:8080/a@b and ssh://git@acme.test:22/notes",
    "docker://registry:5000@sha256:" + chars(64, HEX),
    "/home/ada/projects/x86_64-linux-gnu/lib/python3.11/site-packages/secret_store2.py",
    "secrets: /etc/ssl/private/acme2-2024-prod.key1",
    "color: #1a2b3c; background: #fefefe80;",
    "!function(e,t){var n=e.token1=t.password2;return n.a4b}(this,window0)",
    "max_tokens=4096, next_page_token=" + chars(40),
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "Put the text between -----BEGIN RSA PRIVATE KEY----- and its end marker.",
    "-----BEGIN PUBLIC KEY-----\n" + chars(64, BASE64) + "\n-----END PUBLIC KEY-----",
    "eyJ" + "hbGciOiJIUzI1NiJ9... is how a web token begins",
    "sk-loading-spinner-container-wide-left2 sk-circle-fade-animation",
    "[token](../auth/Token%20refresh%202024-01-12.md)",
    "token expires: 2024-01-15T10:00:00Z",
    "The secret-keeper's key: C major, 120 bpm, 3/4 time.",
    "publicKeyToken=" + chars(16, HEX),
    "model token: gpt-4o-2024-08-06, pass HF_TOKEN python:3.12 and --secrets HF_TOKEN python:3.12",
    "see the contact-us1 page, en-us1, AKIA, ghp_, xoxb- and pypi-AgEI prefixes",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert find_secrets(text) == []
    assert redact(text) == text


def test_a_private_key_is_one_finding_from_its_first_to_its_last_line() -> None:
    block = pem("RSA PRIVATE KEY", "\r\n")
    text = f"one\r\ntwo\r\n{block}\r\nlast\r\n"
    assert find_secrets(text) == [SecretFinding(3, 10, 10 + len(block), "private-key")]


def test_a_private_key_that_was_cut_off_is_found_up_to_where_it_stops() -> None:
    block = pem("EC PRIVATE KEY").rpartition("\n")[0]
    text = f"{block}\n\nThen prose again."
    assert find_secrets(text) == [SecretFinding(1, 0, len(block), "private-key")]


def test_a_putty_key_is_found() -> None:
    lines = "\n".join(chars(64, BASE64) for _ in range(8))
    text = f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 8\n{lines}\nPrivate-MAC: {chars(64, HEX)}\n"
    [found] = find_secrets(text)
    assert (found.line, found.rule) == (2, "private-key")
    assert lines not in redact(text)


def test_the_secret_beside_an_access_key_is_found_in_a_credentials_table() -> None:
    text = "Access key ID,Secret access key\n" + "AK" + "IA" + chars(16, UPPER) + "," + AWS_SECRET + "\n"
    assert [f.rule for f in find_secrets(text)] == ["aws-access-key", "aws-secret-key"]


def test_several_secrets_come_in_order_with_their_lines() -> None:
    first, second = "gh" + "p_" + chars(36), "np" + "m_" + chars(36)
    text = f"a {first} b {second}\n\n\n{first}\n"
    assert [(f.line, f.rule) for f in find_secrets(text)] == [
        (1, "github-token"),
        (1, "npm-token"),
        (4, "github-token"),
    ]


def test_only_a_line_feed_begins_a_line() -> None:
    text = "a\u2028b\x0cc\rd\n" + "gh" + "p_" + chars(36)
    assert [f.line for f in find_secrets(text)] == [2]


def test_letters_whose_lower_case_is_longer_do_not_shift_the_spans() -> None:
    text = f"İİİ password = '{PASSWORD}'"
    [found] = find_secrets(text)
    assert text[found.start : found.end] == PASSWORD


def test_a_finding_never_holds_the_secret() -> None:
    secret = "gh" + "p_" + chars(36)
    [found] = find_secrets(f"use {secret}")
    assert secret not in repr(found)
    assert repr(found) == "SecretFinding(line=1, start=4, end=44, rule='github-token')"


@pytest.mark.parametrize(
    "marker",
    ["<!-- memu-fs: allow-secret -->", "# memu-fs: allow-secret", "# pragma: allowlist secret"],
)
def test_a_marked_line_passes_and_its_neighbours_do_not(marker: str) -> None:
    secret = "gh" + "p_" + chars(36)
    assert [f.line for f in find_secrets(f"{secret}\n{secret} {marker}\n{secret}")] == [1, 3]


def test_a_marker_inside_a_private_key_lets_the_block_pass() -> None:
    block = pem("RSA PRIVATE KEY")
    assert find_secrets(f"{block} <!-- memu-fs: allow-secret -->\n") == []
    assert len(find_secrets(f"<!-- memu-fs: allow-secret -->\n{block}\n")) == 1


def test_redaction_does_not_spare_a_marked_line() -> None:
    secret = "gh" + "p_" + chars(36)
    assert redact(f"{secret} # memu-fs: allow-secret") == "[secret: github-token] # memu-fs: allow-secret"


def test_an_allowed_secret_passes_by_expression_or_digest() -> None:
    secret = "gh" + "p_" + chars(36)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    for entry in (secret, r"ghp_\w{36}", "ghp_.*", f"sha256:{digest}", f"sha256:{digest.upper()}"):
        assert find_secrets(f"use {secret}", allow=[entry]) == []


def test_an_expression_must_match_the_whole_secret() -> None:
    secret = "gh" + "p_" + chars(36)
    for entry in (secret[:-1], "ghp_", "sha256:" + "0" * 64, "[a-z]+"):
        assert len(find_secrets(f"use {secret}", allow=[entry])) == 1


def test_a_long_secret_is_allowed_by_its_digest_only() -> None:
    block = pem("RSA PRIVATE KEY")
    assert len(find_secrets(block, allow=[".*"])) == 1
    assert find_secrets(block, allow=[f"sha256:{hashlib.sha256(block.encode()).hexdigest()}"]) == []


@pytest.mark.parametrize(
    "entry",
    [
        "(a+)+$",
        "a|b",
        "[a",
        "*a",
        "",
        "sha256:12",
        "a*b*c*d*e",
        "[a--b]",
        "a" * 501,
        r"\1",
        "a{3}{4}",
        "a{9,1}",
        "\\",
    ],
)
def test_an_entry_that_cannot_be_used_is_named(entry: str) -> None:
    with pytest.raises(MemuError, match="secret-allow entry") as caught:
        find_secrets("nothing here", allow=[entry])
    assert repr(entry[:57])[:-1] in str(caught.value)


def test_the_slowest_expressions_that_are_accepted_end_soon() -> None:
    secret = "a1" * 95
    began = time.process_time()
    for entry in (".*.*.*!", "[a1]*[a1]*[a1]*b", "a?.*.*!"):
        assert len(find_secrets(f"x = 'sk-proj-{chars(170)}' {secret}", allow=[entry])) == 1
    assert time.process_time() - began < 5


HOSTILE = {
    "one letter": "a",
    "prefixes": "sk-",
    "long prefixes": "sk-ant-",
    "plugin anchors": "SG.",
    "account keys": "AccountKey=",
    "web tokens": "eyJ",
    "key heads": "-----BEGIN PRIVATE KEY-----",
    "putty": "Private-Lines: 1\n",
    "urls": "://a:b",
    "assignments": "token=",
    "separated assignments": "password=a1;",
    "quoted assignments": '"password":"',
    "spaces": "password" + " " * 9,
    "curl": "curl -u a:",
    "bearer": "bearer ",
    "capitals": "MNO",
    "bots": "123456789:AA",
    "word": "x7",
    "pragma": "pragma: ",
    "markers": "# memu-fs: allow-secret ",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_time_grows_with_the_length_of_the_text_alone(piece: str) -> None:
    began = time.process_time()
    find_secrets(piece * (300_000 // len(piece)))
    assert time.process_time() - began < 15


def test_many_secrets_on_one_long_line_are_found_in_linear_time() -> None:
    text = " ".join("gh" + "p_" + chars(36) for _ in range(5_000)) + " x"
    began = time.process_time()
    assert len(find_secrets(text)) == 5_000
    assert time.process_time() - began < 8
    assert find_secrets(text + " memu-fs: allow-secret") == []


def test_importing_the_scan_loads_no_detector() -> None:
    code = (
        "import sys, memu_fs.secret_scan as s; s.find_secrets('prose about a token and a key, contact-us');"
        "print([m for m in ('detect_secrets', 'requests') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            *(around.format(secret) for _, secret, around in CASES),
            *(secret for _, secret, _ in CASES),
            "password=",
            "token: ",
            "\n",
            '"',
            "-----BEGIN RSA PRIVATE KEY-----",
            "-----END RSA PRIVATE KEY-----",
            "https://a:",
            "@host",
            "memu-fs: allow-secret",
        ]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_scanned_and_once_redacted_holds_no_secret(text: str) -> None:
    found = find_secrets(text)
    assert all(0 <= f.start < f.end <= len(text) for f in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert all(f.line == text[: f.start].count("\n") + 1 for f in found)
    redacted = redact(text)
    assert find_secrets(redacted) == []
    assert redact(redacted) == redacted
