"""Which URLs are taken, and in whose words the others are refused."""

from __future__ import annotations

import pytest

from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.loading.source import FileSource, HTTPSource, SourceError, parse_source


@pytest.mark.parametrize(("url", "path"), [("file:///a/b.wasm", "/a/b.wasm"), ("file://b c.wasm", "b c.wasm")])
def test_everything_after_the_seventh_character_of_a_file_url_is_the_path(url: str, path: str) -> None:
    assert parse_source(SecretURL(url)) == FileSource(path)


@pytest.mark.parametrize(
    "url", ["https://a.example/g.wasm", "http://127.0.0.1:8/g", "http://[::1]/g", "http://localhost/g"]
)
def test_https_is_taken_and_plain_http_from_this_machine(url: str) -> None:
    assert parse_source(SecretURL(url)) == HTTPSource(SecretURL(url))


def test_plain_http_from_another_machine_takes_an_opt_in() -> None:
    with pytest.raises(SourceError, match=r"^expected https, got plain http from a\.example: .*allowInsecure"):
        parse_source(SecretURL("http://a.example/g.wasm"))
    assert parse_source(SecretURL("http://a.example/g.wasm"), allow_insecure=True) == HTTPSource(
        SecretURL("http://a.example/g.wasm"), True
    )


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("guest.wasm", "invalid URL: guest.wasm (for a file, write file://guest.wasm)"),
        ("http://a b", "invalid URL: 'http://a b'"),
        ("http://a:port/", "invalid URL: http://<hidden>"),
        ("https://[::1/", "invalid URL: https://<hidden>"),
        ("Admin:password@host", "invalid URL: <hidden>@host"),
        ("/guest.wasm", "unsupported URL scheme:  (for a file, write file:///guest.wasm)"),
        ("ftp://a/g", "unsupported URL scheme: ftp"),
        ("oci://a/g", "unsupported URL scheme: oci"),
        ("https:///g", "expected a URL with a host, got https:///g"),
        ("file://", "expected file://PATH, got no path"),
        ("file://a\0b", "expected a path without NUL"),
    ],
)
def test_what_cannot_be_a_source_is_refused_in_kube_scheduler_wasm_extensions_words(url: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_source(SecretURL(url))
    assert str(caught.value) == message


def test_a_password_is_not_shown() -> None:
    assert HTTPSource(SecretURL("https://me:secret@a.example/g?sig=1")).shown == "https://<hidden>@a.example/g?<hidden>"
