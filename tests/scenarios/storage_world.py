"""A world with storage: nodes in zones, classes, and the controller that binds and makes volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from msgspec.structs import replace

from kscheduler.api.storage import BOUND, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from kscheduler.client.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from kscheduler.config.load import default_config
from kscheduler.config.types import PluginConfig, SchedulerConfig, VolumeBindingArgs
from kscheduler.simulator.volume_controller import VolumeController
from kscheduler.testing import PodBuilder, make_node
from tests.framework.plugins.volumebinding.objects import HOSTNAME, make_claim, make_class, make_volume, pod_with
from tests.support.world import World

CSI = "csi.example.com"


class StorageWorld(World):
    """With nodes n0 to n2 in zones z0 to z2, and the class `wait` for volumes that are there, `made` for others."""

    def __init__(self, *, controller: bool = True, **options: Any) -> None:
        super().__init__(**options)
        if controller:
            self.start_controller()
        for index in range(3):
            self.add_node(make_node(f"n{index}").label(zone=f"z{index}").capacity(cpu="4", memory="16Gi"))
        self.cluster.create_object(make_class())
        self.cluster.create_object(make_class("made", CSI))

    async def __aenter__(self) -> Self:
        return self

    def start_controller(self, late_s: float = 0.0) -> None:
        """The controller does its work so late after each change."""
        loop = asyncio.get_running_loop()
        defer: Callable[[Callable[[], None]], object] = loop.call_soon
        if late_s:
            defer = lambda work: loop.call_later(late_s, work)  # noqa: E731
        VolumeController(self.cluster, defer)

    def add(self, *items: Any) -> None:
        """Storage objects; the cluster gives versions."""
        for item in items:
            self.cluster.create_object(replace(item, metadata=replace(item.metadata, resource_version="", uid="")))

    def add_local_volumes(self, count: int = 3, **options: Any) -> None:
        """Volume v<i> on node n<i>."""
        self.add(*(make_volume(f"v{index}", on={HOSTNAME: [f"n{index}"]}, **options) for index in range(count)))

    def add_pods(self, count: int, class_name: str = "wait") -> None:
        """Pod p<i> with claim c<i>."""
        for index in range(count):
            self.add(make_claim(f"c{index}", class_name))
            self.add_pod(pod(f"p{index}", f"c{index}"))

    def claim(self, name: str = "c0") -> PersistentVolumeClaim:
        return self._stored(PERSISTENT_VOLUME_CLAIMS, f"default/{name}")  # type: ignore[no-any-return]

    def volume(self, name: str = "v0") -> PersistentVolume:
        return self._stored(PERSISTENT_VOLUMES, name)  # type: ignore[no-any-return]

    def _stored(self, resource: Resource[Any], key: str) -> Any:
        return self.cluster.store(resource).objects[key]

    def is_reported(self, name: str, words: str) -> bool:
        condition = self.condition(name)
        return condition is not None and words in condition.message

    def asked_for(self, name: str = "c0") -> str:
        """The node that a claim's volume is to be made for."""
        return (self.claim(name).metadata.annotations or {}).get(SELECTED_NODE, "")

    def change_claim(self, name: str, annotations: dict[str, str], **spec: Any) -> None:
        """What another controller does; it keeps the status unless the claim is bound."""
        claim = self.claim(name)
        status = replace(claim.status, phase=BOUND) if spec else claim.status
        metadata = replace(claim.metadata, annotations=annotations)
        changed = replace(claim, metadata=metadata, spec=replace(claim.spec, **spec), status=status)
        self.cluster.update_object(changed)

    def check_state(self) -> None:
        super().check_state()
        self._check_assumptions()

    def _check_assumptions(self) -> None:
        """Nothing is assumed any more, and each bound pod has bound claims that its node can access."""
        known = self.scheduler.volumes
        for key in self.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects:
            namespace, _, name = key.partition("/")
            assert known.claim(namespace, name) is known.reported_claim(namespace, name), key
        for name in self.cluster.store(PERSISTENT_VOLUMES).objects:
            assert known.volume(name) is known.reported_volume(name), name


def pod(name: str, *claims: str) -> PodBuilder:
    return pod_with(*claims, name=name).req(cpu="100m")


def timing_out_after(seconds: int) -> SchedulerConfig:
    config = default_config()
    entry = PluginConfig("VolumeBinding", VolumeBindingArgs(bind_timeout_seconds=seconds))
    profile = config.profiles[0]
    others = tuple(each for each in profile.plugin_config if each.name != "VolumeBinding")
    return replace(config, profiles=(replace(profile, plugin_config=(*others, entry)),))
