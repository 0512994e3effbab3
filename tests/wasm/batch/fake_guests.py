"""Fake guests that a configuration may name, and two lanes with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from kscheduler.config.load import parse_config
from kscheduler.framework.interface import Handle
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.input.redaction import SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.plugin_class import make_class, plugin_class
from kscheduler.wasm.batch.version import BatchVersion, Surroundings
from tests.support.lanes import TwoLanes
from tests.wasm.batch.fake_guest import FakeModule, ListGuest
from tests.wasm.batch.plugins import URL, make_table


class FakeGuests:
    """By the names of their plugins."""

    def __init__(
        self, guests: Mapping[str, ListGuest], policy: str = "fail", columns: Callable[[NodeTable], Any] | None = None
    ) -> None:
        self.guests = guests
        self.policy = policy
        self.columns = columns

    def is_guest(self, document: Any) -> bool:
        return isinstance(document, dict) and "fake" in document

    def class_of(self, name: str, document: Any, path: str) -> type[Any]:
        arguments = WasmArguments(guest_url=SecretURL(URL), failure_policy=self.policy)
        module = FakeModule(copy.deepcopy(self.guests[name]))
        made = make_class(name, BatchVersion(name, module, arguments, Surroundings()))
        return made if self.columns is None else type(name, (made,), {"__init__": _with_columns(made, self.columns)})


def _with_columns(made: type[Any], columns: Callable[[NodeTable], Any]) -> Callable[[Any, Any, Handle], None]:
    """Live metrics of the table of each side."""

    def begin(plugin: Any, args: Any, handle: Handle) -> None:
        plugin.around = Surroundings(metrics=columns(handle.table))
        made.__init__(plugin, args, handle)

    return begin


def lanes_of(
    guests: Mapping[str, ListGuest],
    *,
    weight: int = 3,
    policy: str = "fail",
    columns: Callable[[NodeTable], Any] | None = None,
) -> TwoLanes:
    """Beside the default plugins. `columns` makes the live metrics of a table."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": name, "weight": weight} for name in guests]}},
                "pluginConfig": [{"name": name, "args": {"fake": True}} for name in guests],
            }
        ],
    }
    found = FakeGuests(guests, policy, columns)
    config = parse_config(json.dumps(document), "scheduler.yaml", find_plugins=partial(find_plugins, guests=found))
    return TwoLanes(config, guests=found)


class FakeLoaded:
    """A guest as the loader has it."""

    def __init__(self, guest: ListGuest) -> None:
        self.name = "Fake"
        self.arguments = WasmArguments(guest_url=SecretURL(URL))
        self.version = self.of(guest)
        self.followers: list[Any] = []

    @staticmethod
    def of(guest: ListGuest, digest: str = "") -> Any:
        return SimpleNamespace(module=FakeModule(guest), sha256=digest)

    def follow(self, follower: Any) -> None:
        self.followers.append(follower)


def made_of(loaded: FakeLoaded) -> Any:
    table = make_table()
    handle = SimpleNamespace(table=table)
    plugin = plugin_class(loaded)({}, handle)  # type: ignore[arg-type]
    return SimpleNamespace(plugin=plugin, table=table)
