"""The few names and amounts that generated objects are made of: few, so that pods and nodes meet in them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONES = ("a", "b", "c")
REGIONS = ("r1", "r2")
TOPOLOGY_KEYS = (HOSTNAME, ZONE, REGION, "rack")
LABELS: dict[str, tuple[str, ...]] = {  # node label -> values; some of `size` are no integers
    "disk": ("ssd", "hdd"),
    "size": ("1", "5", "12", "007", "big", "1_0", "99999999999999999999"),
    "rack": ("1", "2"),
    "example.com/special": ("", "true"),
}
POD_LABELS: dict[str, tuple[str, ...]] = {
    "app": ("web", "db", "cache"),
    "tier": ("1", "2"),
    "release": ("blue", "green"),
}
NAMESPACES: dict[str, dict[str, str]] = {"default": {"team": "a"}, "other": {"team": "b"}, "third": {}}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT_KEYS = ("dedicated", "gpu", "node.kubernetes.io/unschedulable", "example.com/drain")
TAINT_VALUES = ("", "a", "b")
GPU = "example.com/gpu"
FPGA = "other.example.com/fpga"
HUGE = "hugepages-2Mi"
KUBELET_FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Unheard")
IMAGES = ("app:1", "app:2", "registry.example.com/db", "registry.example.com:5000/cache", "tool@sha256:0123abcd", "big")


def pick(rng: random.Random, among: Sequence[T]) -> T:
    return among[rng.randrange(len(among))]


def some(rng: random.Random, among: Sequence[T], at_most: int) -> list[T]:
    """1 to `at_most` different ones."""
    return rng.sample(list(among), min(rng.randint(1, at_most), len(among)))


def often(rng: random.Random, probability: float) -> bool:
    return rng.random() < probability


def full_image_name(name: str) -> str:
    """As a node reports an image: with its tag or digest."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
