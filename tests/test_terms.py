from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memu_fs.index.terms import LONGEST, analyse

DIGEST = "9f2c4e" * 10 + "beef"
FAMILY = "👩\u200d👩\u200d👧"

SHARED = [
    # plain words: case, accents, endings
    ("The heron settles beside the weir", "herons"),
    ("she was running", "run"),
    ("RÉSUMÉ", "resume"),
    ("resume", "résumé"),
    ("re\u0301sume\u0301", "r\u00e9sum\u00e9"),
    ("naïve Café", "cafe"),
    ("Łódź", "lodz"),
    ("smørrebrød", "smorrebrod"),
    ("Straße", "STRASSE"),
    ("ﬁnal ＡＢＣ", "final"),
    ("ﬁnal ＡＢＣ", "abc"),
    ("İstanbul", "istanbul"),
    ("docu\u00adment", "document"),
    ("Ida's boat", "ida"),
    ("Ida’s boat", "Ida's"),
    ("O'Brien", "obrien"),
    ("e-mail", "email"),
    ("email", "e-mail"),
    ("wi‑fi", "wifi"),
    ("1,250 owls", "1250"),
    ("(see: **owl**)", "owl"),
    ("[[Packing list|what to pack]]", "pack"),
    ("the IT budget", "IT"),
    # identifiers, by whole and by part
    ("getUserName()", "getUserName"),
    ("getUserName()", "getusername"),
    ("getUserName()", "user"),
    ("user_name", "userName"),
    ("user_name", "name"),
    ("MAX_RETRY_COUNT", "retry"),
    ("HTTPServer", "http"),
    ("XMLHttpRequest", "request"),
    ("utf8", "utf"),
    ("utf-8", "utf8"),
    ("x86_64", "x86"),
    ("ECONNREFUSED 5432", "econnrefused"),
    ("error[E0277]", "E0277"),
    ("0x80070005", "0X80070005"),
    ("0x80070005", "80070005"),
    ("part-1879", "1879"),
    ("part-1879", "part-1879"),
    ("__init__.py", "__init__"),
    ("foo::bar_baz", "bar"),
    ("AT&T", "at&t"),
    ("Ctrl+Shift+P", "shift"),
    ("I/O", "i/o"),
    ("$HOME/bin", "HOME"),
    ("#garden", "garden"),
    ("#garden", "#Garden"),
    ("--dry-run", "dry-run"),
    ("--dry-run", "--dry-run"),
    ("`-v`", "-v"),
    ("@scope/pkg", "@scope/pkg"),
    ("@scope/pkg", "pkg"),
    ("C++", "c++"),
    ("C++17", "c++"),
    ("C#", "c#"),
    ("(C#)", "C#"),
    (".NET 8", ".net"),
    ("ASP.NET", ".NET"),
    ("node.js", "nodejs"),
    ("node.js", "Node"),
    # numbers, paths, addresses, digests
    ("Python 3.11.7", "3.11"),
    ("v1.2.3", "1.2.3"),
    ("v1.2.3", "V1.2.3"),
    ("10.0.0.12", "10.0.0.12"),
    ("2031-05-08", "2031"),
    ("at 04:12", "04:12"),
    ("/etc/nginx/nginx.conf", "/etc/nginx/nginx.conf"),
    ("/etc/nginx/nginx.conf", "etc/nginx/nginx.conf"),
    ("/etc/nginx/nginx.conf", "nginx.conf"),
    ("/etc/nginx/nginx.conf", "nginx"),
    (r"C:\Users\Ida", "users"),
    ("https://docs.example.org/guide?x=1", "docs.example.org"),
    ("https://docs.example.org/guide?x=1", "guide"),
    ("ida@example.org", "example.org"),
    ("ida@example.org", "ida@example.org"),
    ("localhost:5432", "5432"),
    (DIGEST, DIGEST.upper()),
    (DIGEST, DIGEST[:7]),
    (DIGEST, DIGEST[:10]),
    ("550e8400-e29b-41d4-a716-446655440000", "550e8400"),
    ("x" * 300, "x" * 300),
    ("a" * 200 + "/needle", "needle"),
    # other scripts
    ("倉庫を移転する", "移転"),
    ("倉庫を移転する", "倉"),
    ("四半期计划", "计划"),
    ("カフェ", "ｶﾌｪ"),
    ("がっこう", "か\u3099っこう"),
    ("회의록을 공유", "회의록"),
    ("Pythonで書く", "python"),
    ("Pythonで書く", "書く"),
    ("สวัสดีชาวโลก", "ชาวโลก"),
    ("ສະບາຍດີ", "ສະບາຍ"),
    ("ភាសាខ្មែរ", "ខ្មែរ"),
    ("မြန်မာစာ", "မြန်မာ"),
    ("العَرَبِيَّة", "العربية"),
    ("مـــرحبا", "مرحبا"),
    ("شָ שָׁלוֹם", "שלום"),
    ("٢٠٣١", "2031"),
    ("नमस्ते दुनिया", "नमस्ते"),
    ("Ёлка", "елка"),
    ("ΟΔΟΣ", "οδός"),
    ("done 👍🏽", "👍"),
    ("❤️", "❤"),
    (FAMILY, FAMILY),
    ("🇩🇪", "🇩🇪"),
]

APART = [
    ("C++", "C"),
    ("C#", "C"),
    ("C++", "C#"),
    ("version 1.2.3", "1.3"),
    ("version 1.2.3", "2"),
    ("the owl and a hen", "the and a"),
    ("it is here", "IT"),
    ("ば", "は"),
    ("мой", "мои"),
    ("أمل", "امل"),
    ("倉庫", "移転"),
    ("สวัสดี", "โลก"),
    ("नमस्ते", "नमक"),
    ("🇩🇪", "🇫🇷"),
    ("👍", "👎"),
    (DIGEST, DIGEST[1:9]),
    ("E0277", "E0278"),
    ("ECONNREFUSED", "ECONNRESET"),
    ("getUserName", "username"),
    ("dogma", "dog"),
    ("---", "--"),
]


@pytest.mark.parametrize(("document", "query"), SHARED)
def test_a_query_finds_what_it_names(document: str, query: str) -> None:
    assert set(analyse(document)) & set(analyse(query))


@pytest.mark.parametrize(("document", "query"), APART)
def test_a_query_does_not_find_what_only_looks_near(document: str, query: str) -> None:
    assert not set(analyse(document)) & set(analyse(query))


def test_order_and_repetition_are_kept() -> None:
    assert analyse("owl hen, owl") == ["owl", "hen", "owl"]


def test_an_identifier_has_each_of_its_parts_once() -> None:
    assert analyse("/etc/nginx/nginx.conf") == [
        "etc/nginx/nginx.conf",
        "etc",
        "nginx",
        "nginx.conf",
        "nginxconf",
        "conf",
    ]
    assert analyse("getUserName") == ["getusernam", "getusername", "get", "user", "name"]


def test_a_digest_has_few_prefixes_and_no_parts() -> None:
    assert analyse(DIGEST) == [DIGEST, DIGEST[:7], DIGEST[:8], DIGEST[:12]]


def test_a_key_that_is_all_noise_stays_whole() -> None:
    key = "aB3xY9zQ1kL7mN2pR5tW8"
    assert set(analyse(key)) == {key.casefold()}


def test_a_run_of_ideographs_gives_single_ones_and_pairs() -> None:
    assert analyse("倉庫を") == ["倉", "倉庫", "庫", "庫を", "を"]


def test_marks_stay_with_their_letters() -> None:
    assert analyse("สวัสดี") == ["สวั", "วัส", "สดี"]


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet=st.characters(codec=None), max_size=200), other=st.text(max_size=50))
def test_terms_are_short_fit_utf8_and_hold_no_white_space(text: str, other: str) -> None:
    terms = analyse(text)
    assert all(term.split() == [term] and len(term) <= LONGEST for term in terms)
    assert " ".join(terms).encode().decode().split() == terms
    assert analyse(f"{text} {other}") == terms + analyse(other)


@pytest.mark.parametrize(
    "unit", ["a", "aB1", "1.", "a.", "@a", "-", "漢", "ក្", "👍", "\u0301\u0323", "\u200d", "\ufdfa"]
)
def test_endless_words_give_terms_in_the_end(unit: str) -> None:
    assert all(len(term) <= LONGEST for term in analyse("x" + unit * 50_000))
