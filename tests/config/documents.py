"""Configuration documents for tests: text in, configuration or the message of its refusal out."""

from __future__ import annotations

import textwrap

import pytest

from kscheduler.config.load import parse_config
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SOURCE = "scheduler.yaml"


def read(body: str = "", release: Release = DEFAULT_RELEASE) -> SchedulerConfig:
    return parse_config(HEAD + textwrap.dedent(body), SOURCE, release=release)


def refusal(body: str, *, head: str = HEAD, release: Release = DEFAULT_RELEASE) -> str:
    """Why a document is refused, without the file name that must stand before it."""
    with pytest.raises(ConfigError) as caught:
        parse_config(head + textwrap.dedent(body), SOURCE, release=release)
    source, _, message = str(caught.value).partition(": ")
    assert source == SOURCE
    assert "\n" not in message
    return message


def config_of(args: str, plugin: str = "MetricPolicy") -> str:
    return f"profiles:\n- pluginConfig:\n  - name: {plugin}\n    args:\n" + textwrap.indent(
        textwrap.dedent(args), " " * 6
    )
