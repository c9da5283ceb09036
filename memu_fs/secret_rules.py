"""The secrets that can be told by how they begin.

Every pattern here is tried at a literal only and is bounded in length, so a search takes linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from memu_fs.secret_values import looks_issued, looks_random

Span = tuple[int, int, str]  #: start, end, rule

# A key may follow an escaped line end (JSON inside Markdown) or a percent-encoded sign, but not a letter.
START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
_END = r"(?![A-Za-z0-9_-])"
_WORD = "[A-Za-z0-9]"
_SLUG = "[A-Za-z0-9_-]"


@dataclass(frozen=True, slots=True)
class Form:
    """A secret that can be told by how it begins."""

    rule: str
    anchor: str  #: literal text every such secret begins with
    tail: str  #: a regular expression for what follows; a placeholder there is no secret


@dataclass(frozen=True, slots=True)
class Plugin:
    """Forms that detect-secrets knows; its code is loaded when an anchor is first met."""

    rule: str
    anchors: tuple[str, ...]
    module: str
    detector: str
    exact: bool = False  #: the length is fixed: a longer run of the same characters is something else


FORMS: tuple[Form, ...] = (
    Form("age-key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
    Form("airtable-token", "pat", rf"{_WORD}{{14}}\.[a-f0-9]{{64}}"),
    Form("anthropic-key", "sk-ant-", rf"{_SLUG}{{20,300}}"),
    Form("artifactory-key", "AKC", rf"p[0-9]{_WORD}{{50,90}}"),
    Form("atlassian-token", "ATATT3", r"[A-Za-z0-9_=-]{40,400}"),
    Form("cloudflare-key", "v1.0-", "[a-f0-9]{24}-[a-f0-9]{146}"),
    Form("cloudflare-token", "cfut_", rf"{_SLUG}{{36,80}}"),
    Form("cloudflare-token", "cfat_", rf"{_SLUG}{{36,80}}"),
    Form("databricks-token", "dapi", "[a-f0-9]{32}(?:-[0-9])?"),
    Form("digitalocean-token", "dop_v1_", "[a-f0-9]{64}"),
    Form("digitalocean-token", "doo_v1_", "[a-f0-9]{64}"),
    Form("digitalocean-token", "dor_v1_", "[a-f0-9]{64}"),
    Form("discord-webhook", "https://discord.com/api/webhooks/", rf"[0-9]{{17,20}}/{_SLUG}{{60,80}}"),
    Form("docker-token", "dckr_pat_", rf"{_SLUG}{{24,40}}"),
    Form("doppler-token", "dp.pt.", f"{_WORD}{{40,44}}"),
    Form("figma-token", "figd_", rf"{_SLUG}{{36,60}}"),
    Form("fireworks-key", "fw_", f"{_WORD}{{22,40}}"),
    Form("github-token", "ghp_", r"\w{30,600}"),
    Form("github-token", "gho_", r"\w{30,600}"),
    Form("github-token", "ghu_", r"\w{30,600}"),
    Form("github-token", "ghs_", r"\w{30,600}"),
    Form("github-token", "ghr_", r"\w{30,600}"),
    Form("github-token", "github_pat_", r"\w{36,255}"),
    Form("google-key", "AIza", rf"{_SLUG}{{35}}"),
    Form("google-key", "AQ.Ab", rf"{_SLUG}{{40,80}}"),
    Form("google-oauth-secret", "GOCSPX-", rf"{_SLUG}{{28}}"),
    Form("google-oauth-token", "ya29.", rf"{_SLUG}{{40,1024}}"),
    Form("grafana-token", "glsa_", r"\w{32}_[A-Fa-f0-9]{8}"),
    Form("grafana-token", "glc_", r"[A-Za-z0-9+/]{32,400}={0,2}"),
    Form("groq-key", "gsk_", f"{_WORD}{{40,64}}"),
    Form("heroku-key", "HRKU-", rf"{_SLUG}{{36,80}}"),
    Form("huggingface-token", "hf_", f"{_WORD}{{30,60}}"),
    Form("jina-key", "jina_", rf"{_SLUG}{{40,80}}"),
    Form("langsmith-key", "lsv2_pt_", "[a-f0-9]{32}_[a-f0-9]{10}"),
    Form("langsmith-key", "lsv2_sk_", "[a-f0-9]{32}_[a-f0-9]{10}"),
    Form("linear-key", "lin_api_", f"{_WORD}{{32,64}}"),
    Form("newrelic-key", "NRAK-", "[A-Z0-9]{27}"),
    Form("notion-token", "ntn_", f"{_WORD}{{40,60}}"),
    Form("notion-token", "secret_", f"{_WORD}{{43}}"),
    Form("npm-token", "npm_", f"{_WORD}{{36}}"),
    Form("nvidia-key", "nvapi-", rf"{_SLUG}{{50,90}}"),
    Form("openai-key", "sk-proj-", rf"{_SLUG}{{20,300}}"),
    Form("openai-key", "sk-svcacct-", rf"{_SLUG}{{20,300}}"),
    Form("openai-key", "sk-admin-", rf"{_SLUG}{{20,300}}"),
    Form("openai-key", "sk-", f"{_WORD}{{32,64}}"),
    Form("openrouter-key", "sk-or-", rf"{_SLUG}{{30,100}}"),
    Form("perplexity-key", "pplx-", f"{_WORD}{{40,64}}"),
    Form("pinecone-key", "pcsk_", r"\w{40,90}"),
    Form("planetscale-token", "pscale_tkn_", r"[\w.-]{32,64}"),
    Form("postman-key", "PMAK-", "[a-f0-9]{24}-[a-f0-9]{34}"),
    Form("replicate-token", "r8_", f"{_WORD}{{37,40}}"),
    Form("rubygems-key", "rubygems_", "[a-f0-9]{48}"),
    Form("sentry-token", "sntrys_", r"[A-Za-z0-9+/=_]{60,400}"),
    Form("sentry-token", "sntryu_", "[a-f0-9]{64}"),
    Form("shopify-token", "shpat_", "[a-fA-F0-9]{32}"),
    Form("slack-token", "xapp-", r"[0-9]-[A-Z0-9]{8,14}-[0-9]{10,14}-[a-f0-9]{60,70}"),
    Form("slack-token", "xoxe.xoxp-", rf"[0-9]-{_SLUG}{{60,260}}"),
    Form("slack-token", "xoxe-", rf"[0-9]-{_SLUG}{{60,260}}"),
    Form("supabase-key", "sbp_", "[a-f0-9]{40}"),
    Form("supabase-key", "sb_secret_", rf"{_SLUG}{{28,44}}"),
    Form("tavily-key", "tvly-", rf"{_SLUG}{{28,60}}"),
    Form("twilio-key", "SK", "[a-f0-9]{32}"),
    Form("vault-token", "hvs.", rf"{_SLUG}{{24,200}}"),
    Form("voyage-key", "pa-", rf"{_SLUG}{{43}}"),
    Form("xai-key", "xai-", f"{_WORD}{{60,100}}"),
)


PLUGINS: tuple[Plugin, ...] = (
    Plugin("aws-access-key", ("AKIA", "ASIA", "ABIA", "ACCA"), "aws", "AWSKeyDetector", exact=True),
    Plugin("azure-storage-key", ("AccountKey=",), "azure_storage_key", "AzureStorageKeyDetector"),
    Plugin(
        "gitlab-token",
        ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-"),
        "gitlab_token",
        "GitLabTokenDetector",
    ),
    Plugin("pypi-token", ("pypi-Ag",), "pypi_token", "PypiTokenDetector"),
    Plugin("sendgrid-key", ("SG.",), "sendgrid", "SendGridDetector"),
    Plugin("slack-token", ("xox", "hooks.slack.com"), "slack", "SlackDetector"),
    Plugin("square-secret", ("sq0csp-",), "square_oauth", "SquareOAuthDetector"),
    Plugin("stripe-key", ("sk_live_", "rk_live_"), "stripe", "StripeDetector"),
)


@cache
def _pattern(form: Form) -> re.Pattern[str]:
    # Compiled when first needed: most texts hold no anchor at all.
    return re.compile(f"{START}{re.escape(form.anchor)}((?>{form.tail})){_END}")


@cache
def _expressions(plugin: Plugin) -> tuple[re.Pattern[str], ...]:
    # Its scanner is never called: that one is slow, keeps global settings and can verify over the network.
    module = import_module(f"detect_secrets.plugins.{plugin.module}")
    return tuple(getattr(module, plugin.detector).denylist)


def known_forms(text: str) -> Iterator[Span]:
    """Find the secrets that begin like those of a known issuer."""
    dense = _condense(text)
    for form in FORMS:
        yield from _of_form(text, form, dense.find_all(form.anchor))
    for plugin in PLUGINS:
        for anchor in plugin.anchors:
            yield from _of_plugin(text, plugin, dense.find_all(anchor))


@dataclass(frozen=True, slots=True)
class _Dense:
    """The parts of a text that hold long runs of a key's characters; in prose these are few."""

    joined: str
    places: tuple[int, ...]  #: where each part begins in `joined`
    origins: tuple[int, ...]  #: where each part begins in the text

    def find_all(self, anchor: str) -> Iterator[int]:
        at = self.joined.find(anchor)
        while at >= 0:
            part = bisect_right(self.places, at) - 1
            yield self.origins[part] + at - self.places[part]
            at = self.joined.find(anchor, at + len(anchor))


_RUN = re.compile(r"[A-Za-z0-9_+/=-]{16,}+")
_REACH = 34  # an anchor begins at most this far before the run of characters that gives a key away


def _condense(text: str) -> _Dense:
    parts, places, origins, place = [], [], [], 0
    for low, high in _dense_parts(text):
        parts.append(text[low:high])
        places.append(place)
        origins.append(low)
        place += high - low + 1
    return _Dense("\n".join(parts), tuple(places), tuple(origins))


def _dense_parts(text: str) -> Iterator[tuple[int, int]]:
    low = high = 0
    for run in _RUN.finditer(text):
        if run.start() - _REACH > high:
            if high:
                yield (low, high)
            low = run.start() - _REACH
        high = run.end()
    if high:
        yield (low, high)


def _of_form(text: str, form: Form, places: Iterator[int]) -> Iterator[Span]:
    done = 0
    for at in places:
        match = _pattern(form).match(text, at) if at >= done else None
        if match:
            done = match.end()
            if looks_issued(match[1]):
                yield (at, done, form.rule)


_BEFORE, _AFTER = 40, 400  # characters around an anchor that a plugin's expressions are shown
BOUNDARY = re.compile(START)
_TAIL = re.compile(r"[A-Za-z0-9_-]{0,2048}")
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")


def _of_plugin(text: str, plugin: Plugin, places: Iterator[int]) -> Iterator[Span]:
    done = 0
    for at in places:
        if at >= done:
            # Half a window on: what begins in the first half is seen whole.
            done = at + _AFTER // 2
            yield from _plugin_spans(text, plugin, at)


def _plugin_spans(text: str, plugin: Plugin, at: int) -> Iterator[Span]:
    for start, end in _plugin_matches(text, plugin, at):
        yield (start, end, plugin.rule)
        if plugin.rule == "aws-access-key":
            yield from _aws_secret(text, end)


def _plugin_matches(text: str, plugin: Plugin, at: int) -> Iterator[tuple[int, int]]:
    for expression in _expressions(plugin):
        for match in expression.finditer(text, max(0, at - _BEFORE), min(len(text), at + _AFTER)):
            tail = _TAIL.match(text, match.end())
            end = tail.end() if tail else match.end()
            is_longer = plugin.exact and end > match.end()
            if BOUNDARY.match(text, match.start()) and not is_longer and looks_issued(match[0]):
                yield (match.start(), end)


def _aws_secret(text: str, after: int) -> Iterator[Span]:
    # The bare secret key just behind its access key, as in a credentials table.
    match = _AWS_SECRET.search(text, after, after + 160)
    if match and looks_random(match[0]) and not match[0].islower():
        yield (match.start(), match.end(), "aws-secret-key")
