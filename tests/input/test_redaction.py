"""What may be seen of a URL, and of what stands in its place."""

from __future__ import annotations

import pytest

from kscheduler.input.redaction import SecretURL, hide_parts, hide_urls

SHOWN = {
    "https://host.example:8443/path": "https://host.example:8443/path",
    "https://user:password@host/path?token=x#y": "https://<hidden>@host/path?<hidden>#<hidden>",
    "https://[::1]:8443/x": "https://[::1]:8443/x",
    "https:///?token=x": "https:///?<hidden>",
    "http://host:password": "http://<hidden>",
    # Paths of files:
    "guest.wasm": "guest.wasm",
    "./policies/a.wasm": "./policies/a.wasm",
    "../a": "../a",
    "~/a": "~/a",
    "policies/a.wasm": "policies/a.wasm",
    "/opt/policies/a": "/opt/policies/a",
    "file:///opt/a@b.wasm": "file:///opt/a@b.wasm",
    "file://policies/a.wasm": "file://policies/a.wasm",
    # ... and what only looks like one:
    "file://user:password@host/a.wasm": "file://<hidden>@host/a.wasm",
    "file:///user:password@host/a.wasm": "file://<hidden>@host/a.wasm",
    "file:///a.wasm?token=x": "file:///a.wasm?<hidden>",
    "user:password/a.wasm": "<hidden>",
    "a.wasm?token=x": "a.wasm?<hidden>",
    "key=x/a.wasm": "<hidden>",
    # Hosts:
    "127.0.0.1": "127.0.0.1",
    "localhost": "localhost",
    "prometheus.monitoring.svc/x": "prometheus.monitoring.svc/x",
    "127.0.0.1:9090": "127.0.0.1:9090",
    "localhost:9090/x": "localhost:9090/x",
    "prometheus.monitoring.svc:9090": "prometheus.monitoring.svc:9090",
    "user:password@host:9090": "<hidden>@host:9090",
    "user:12345": "<hidden>",
    "john.doe:12345": "<hidden>",
    "127.0.0.1:password": "<hidden>",
    # All else could be a token:
    "ghp_abcdef0123456789": "<hidden>",
    "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl": "<hidden>",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "<hidden>",
    "c29tZXRoaW5n/IGVsc2U=": "<hidden>",
    "aVeryLongTokenIndeed://host": "<hidden>",
    "": "",
}


@pytest.mark.parametrize("given", SHOWN)
def test_what_is_shown_of_a_url(given: str) -> None:
    assert SecretURL(given).shown == SHOWN[given]


@pytest.mark.parametrize(
    ("given", "quoted"),
    [
        ("127.0.0.1:10259", "'127.0.0.1:10259'"),
        ("htps://user:password@host", "'htps://<hidden>@host'"),
        ("scheduler.example", "a text without http:// or https://, which may be secret"),
        ("", "''"),
    ],
)
def test_a_text_that_is_no_url_is_quoted_without_what_may_be_secret(given: str, quoted: str) -> None:
    assert SecretURL(given).quoted == quoted


@pytest.mark.parametrize("given", [given for given in SHOWN if "://" in given])
def test_a_shown_url_stays_as_it_is_when_it_is_hidden_again(given: str) -> None:
    shown = SecretURL(given).shown
    assert hide_urls(f"got {shown!r}: no") == f"got {shown!r}: no"


def test_a_value_is_hidden_in_whatever_case_a_library_writes_it() -> None:
    assert hide_parts("host ghp_abcdef, and GHP_ABCDEF", ["ghp_AbCdEf"]) == "host <hidden>, and <hidden>"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ghp_abcdef", "Cannot connect to host GHP_ABCDEF"),
        ("http://user:pass/word@host", "Port could not be cast to integer value as 'pass'; word"),
        ('http://user:pass"word@host', 'in JSON: "pass\\"word"'),
        ("http://user:pass word@host", "at pass"),
    ],
)
def test_the_parts_of_a_wrong_url_that_a_library_names_are_hidden(url: str, text: str) -> None:
    hidden = SecretURL(url).hide_in(text)
    assert "<hidden>" in hidden
    assert not any(part in hidden.lower() for part in ("ghp", "pass", "word"))


def test_the_host_that_a_library_names_is_shown() -> None:
    url = SecretURL("https://user:password@host.example/x?token=abcd")
    assert url.hide_in("Cannot connect to host host.example:443") == "Cannot connect to host host.example:443"
