"""The flags of `kscheduler plugin`."""

from __future__ import annotations

import pytest

from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.plugin import InspectOptions, PluginTestOptions
from kscheduler.errors import ConfigError


def test_inspect_takes_a_file_and_how_to_print() -> None:
    assert parse(["plugin", "inspect", "g.wasm"]) == InspectOptions("g.wasm")
    flags = ["--output", "json", "--allow-insecure"]
    assert parse(["plugin", "inspect", "http://a/g", *flags]) == InspectOptions("http://a/g", "json", True)


def test_test_takes_a_cluster_and_pods() -> None:
    given = ["plugin", "test", "g.wasm", "--cluster", "c.yaml", "--pod", "p.yaml"]
    assert parse(given) == PluginTestOptions("g.wasm", "c.yaml", "p.yaml")
    more = ["--args", "a.yaml", "--guest-config", "x", "--plugin-cache-dir", "", "-o", "json", "--allow-insecure"]
    assert parse([*given, *more]) == PluginTestOptions(
        "g.wasm", "c.yaml", "p.yaml", args="a.yaml", config="x", output="json", allow_insecure=True, plugin_cache_dir=""
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (["plugin"], "COMMAND"),
        (["plugin", "inspect"], "FILE"),
        (["plugin", "test", "g.wasm", "--pod", "p"], "--cluster"),
        (["plugin", "test", "g.wasm", "--cluster", "c"], "--pod"),
    ],
)
def test_what_a_plugin_command_lacks_is_named(given: list[str], missing: str) -> None:
    with pytest.raises(ConfigError, match=f"required: {missing}"):
        parse(given)
