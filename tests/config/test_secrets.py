"""What lets its holder in elsewhere is not shown."""

from __future__ import annotations

import pytest

from kscheduler.config import to_yaml
from kscheduler.config.secrets import HIDDEN, has_secrets, without_secrets
from tests.config.documents import read

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
      - {name: Guest, args: {guestURL: "https://s3cret-me:s3cret-pw@host:8443/guest.wasm?v=1"}}
    extenders:
    - {urlPrefix: "https://x", filterVerb: f, tlsConfig: {certData: Y2VydA==, keyData: czNjcmV0LWtleQ==}}
    """
PLAIN = """
    profiles:
    - schedulerName: a
      pluginConfig:
      - name: TargetLoadPacking
        args: {metricProvider: {type: Prometheus, tokenFile: /run/token}}
      - name: MetricPolicy
        args: {sources: [{name: p, prometheus: {url: "http://p", headerFiles: {X-Key: /run/key}}}]}
      - {name: Guest, args: {guestURL: "https://host/guest.wasm", guestConfig: "a@b"}}
      - {name: Mine, args: [free, form]}
    extenders: [{urlPrefix: "http://x", filterVerb: f}]
    """


def test_no_secret_is_left_and_all_else_is() -> None:
    text = to_yaml(without_secrets(read(SECRETS)))
    assert "s3cret" not in text
    assert "czNjcmV0LWtleQ==" not in text
    for kept in ("http://p:9090", "X-Key: <hidden>", "/run/password", "Y2VydA==", "host:8443/guest.wasm?v=1"):
        assert kept in text
    assert text.count(HIDDEN) == 5


def test_a_configuration_without_secrets_is_shown_as_it_is() -> None:
    config = read(PLAIN)
    assert without_secrets(config) == config
    assert not has_secrets(config)
    assert has_secrets(read(SECRETS))


@pytest.mark.parametrize("url", ["https://[bad", "x"])
def test_a_url_of_a_guest_that_is_none_is_no_fault(url: str) -> None:
    text = to_yaml(without_secrets(read(f"profiles: [{{pluginConfig: [{{name: G, args: {{guestURL: '{url}'}}}}]}}]")))
    assert (HIDDEN in text) == (url != "x")
