"""What lets its holder in elsewhere is not shown, and can be written where it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.config.dump import to_yaml
from kscheduler.config.load import parse_config
from kscheduler.config.secrets import shown_arguments
from kscheduler.input.redaction import HIDDEN
from tests.config.documents import SOURCE, read

SECRETS = """
    profiles:
    - schedulerName: a
      plugins: {score: {enabled: [{name: TargetLoadPacking}]}, multiPoint: {enabled: [{name: MetricPolicy}]}}
      pluginConfig:
      - name: TargetLoadPacking
        args: {metricProvider: {type: Prometheus, address: "http://p:9090", token: s3cret-token}}
      - name: MetricPolicy
        args:
          sources:
          - name: p
            prometheus: {url: "http://p:9090", headers: {X-Key: s3cret-header}}
          - name: w
            loadWatcher: {url: "http://w:2020", username: s3cret-user, passwordFile: /run/password}
      - {name: Guest, args: {guestURL: "https://s3cret-me:s3cret@host:8443/guest.wasm?v=s3cret", Args: [s3cret]}}
    extenders:
    - urlPrefix: "https://s3cret-me:s3cret-pw@x:1/y?sig=s3cret"
      filterVerb: f
      tlsConfig: {certData: Y2VydA==, keyData: czNjcmV0LWtleQ==}
    """
PLAIN = """
    profiles:
    - schedulerName: a
      pluginConfig:
      - name: TargetLoadPacking
        args: {metricProvider: {type: Prometheus, tokenFile: /run/token}}
      - name: MetricPolicy
        args: {sources: [{name: p, prometheus: {url: "http://p", headerFiles: {X-Key: /run/key}}}]}
      - {name: Guest, args: {guestURL: "https://host/guest.wasm", deadline: 20ms}}
      - {name: Mine, args: [free, form]}
    extenders: [{urlPrefix: "http://x", filterVerb: f}]
    """


def test_no_secret_is_left_and_all_else_is() -> None:
    text = to_yaml(read(SECRETS))
    assert "s3cret" not in text
    assert "czNjcmV0LWtleQ==" not in text
    for kept in ("http://p:9090", "X-Key: <hidden>", "/run/password", "Y2VydA==", "host:8443/guest.wasm?<hidden>"):
        assert kept in text
    assert "urlPrefix: https://<hidden>@x:1/y?<hidden>\n" in text


def test_what_is_shown_reads_as_a_configuration() -> None:
    shown = to_yaml(read(SECRETS))
    assert to_yaml(parse_config(shown, SOURCE), with_secrets=True) == shown


def test_a_configuration_that_is_asked_for_with_its_secrets_is_whole() -> None:
    config = read(SECRETS)
    assert parse_config(to_yaml(config, with_secrets=True), SOURCE) == config


def test_a_configuration_without_secrets_is_shown_as_it_is() -> None:
    config = read(PLAIN)
    assert to_yaml(config) == to_yaml(config, with_secrets=True)
    assert HIDDEN not in to_yaml(config)


@pytest.mark.parametrize("url", ["https://[bad", "x.wasm"])
def test_a_url_of_a_guest_that_is_none_is_no_fault(url: str) -> None:
    text = to_yaml(read(f"profiles: [{{pluginConfig: [{{name: G, args: {{guestURL: '{url}'}}}}]}}]"))
    assert f"guestURL: {url}\n" in text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"password": "x", "n": 1}, {"password": HIDDEN, "n": 1}),
        ({"api_key": "x", "apiToken": 7, "is-token": True}, {"api_key": HIDDEN, "apiToken": HIDDEN, "is-token": True}),
        ({"tokenFile": "/run/t", "secretName": "s"}, {"tokenFile": "/run/t", "secretName": "s"}),
        ({"headers": {"X": ["a"]}, "env": [{"A": "b"}]}, {"headers": {"X": [HIDDEN]}, "env": [{"A": HIDDEN}]}),
        ({"deep": [{"clientSecret": "x"}]}, {"deep": [{"clientSecret": HIDDEN}]}),
        ({"from": "see http://u:p@h/x"}, {"from": f"see http://{HIDDEN}@h/x"}),
        ({"server": "u:p@h:1"}, {"server": f"{HIDDEN}@h:1"}),
        ({"guestURL": "file://x", "Args": ["a", "b"]}, {"guestURL": "file://x", "Args": [HIDDEN, HIDDEN]}),
        ({"guestURL": "file://x", "guestConfig": {"a": "b"}}, {"guestURL": "file://x", "guestConfig": {"a": HIDDEN}}),
        ({"password": "", "token": None}, {"password": "", "token": None}),
        ("free", "free"),
    ],
)
def test_arguments_of_plugins_from_elsewhere_are_shown_without_what_their_names_call_a_secret(
    given: Any, shown: Any
) -> None:
    assert shown_arguments(given) == shown
