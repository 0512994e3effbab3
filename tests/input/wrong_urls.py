"""Every way in which a URL can be wrong, and the configuration files that hold one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kscheduler.config.load import parse_config
from kscheduler.errors import KSchedulerError
from kscheduler.extenders.webhook import Webhook
from tests.support.canaries import Canaries

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
WAYS = {  # in which a URL is wrong, beside the credentials in it
    "no scheme": "{user}:{password}@127.0.0.1:1",
    "no scheme, and a query": "127.0.0.1:1/?token={token}",
    "a token in the query": "http://127.0.0.1:1/?token={token}",
    "a token in the fragment": "http://127.0.0.1:1/#{token}",
    "a user alone": "http://{user}@127.0.0.1:1",
    "a port beyond 65535": "http://{user}:{password}@127.0.0.1:99999/?sig={token}",
    "a port that is a password": "http://127.0.0.1:{password}/",
    "a scheme nobody knows": "htp://{user}:{password}@127.0.0.1:1/?sig={token}",
    "a scheme that is a token": "ghp0{token}://127.0.0.1:1/",
    "a file": "file://{user}:{password}@127.0.0.1/x?sig={token}",
    "no host": "https://{user}:{password}@/?sig={token}",
    "no host, and a query": "https:///?sig={token}",
    "a wrong escape": "http://{user}:%zz{password}@127.0.0.1:1/%zz?sig=%g{token}",
    "a space": "http://{user}:{password} {token}@127.0.0.1:1/",
    "a line end": "http://{user}:{password}@127.0.0.1:1/\n?sig={token}",
    "a slash in the password": "http://{user}:{password}/{token}@127.0.0.1:1/",
    "a question mark in the password": "http://{user}:{password}?{token}@127.0.0.1:1/",
    "one slash": "http:/{user}:{password}@127.0.0.1:1/",
    "no slashes": "http:{user}:{password}@127.0.0.1:1/",
    "half an IPv6 address": "http://{user}:{password}@[::1/?sig={token}",
    "half an IPv6 address, no scheme": "//{user}:{password}@[::1/?sig={token}",
    "nothing but a token": "ghp_{token}",
    "nothing but a token in base64": "{token}/x+{password}==",
}


def written(way: str, canaries: Canaries) -> str:
    return WAYS[way].format(**{part: canaries.new(part) for part in ("user", "password", "token")})


def profile(name: str, args: dict[str, Any]) -> dict[str, Any]:
    plugins = {"multiPoint": {"enabled": [{"name": name}]}}
    config = [{"name": name, "args": args}]
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": config}]}


def source(kind: str) -> Callable[[str], dict[str, Any]]:
    return lambda url: profile("MetricPolicy", {"sources": [{"name": "s", kind: {"url": url}}]})


def trimaran(plugin: str) -> Mapping[str, Callable[[str], dict[str, Any]]]:
    return {
        f"{plugin}.metricProvider.address": lambda url: profile(
            plugin, {"metricProvider": {"type": "Prometheus", "address": url}}
        ),
        f"{plugin}.watcherAddress": lambda url: profile(plugin, {"watcherAddress": url}),
    }


FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {  # -> a configuration that is right but for this URL
    "config.extenders[].urlPrefix": lambda url: {
        "extenders": [{"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "2s"}]
    },
    "MetricPolicy.sources[].prometheus.url": source("prometheus"),
    "MetricPolicy.sources[].loadWatcher.url": source("loadWatcher"),
    **trimaran("TargetLoadPacking"),
    **trimaran("LoadVariationRiskBalancing"),
    "wasm.guest_url": lambda url: profile("Guest", {"guestURL": url}),
}


def is_valid(field: str, way: str) -> bool:
    try:
        config = parse_config(json.dumps({**HEAD, **FIELDS[field](written(way, Canaries()))}))
        for index, extender in enumerate(config.extenders):
            Webhook(extender, f"extenders[{index}]")
    except KSchedulerError:
        return False
    return True
