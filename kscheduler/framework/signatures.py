"""Pods that the plugins of a profile cannot tell apart, and how a pod is known to be one of them.

A signature is what PreFilter, Filter, PreScore and Score look at in a pod, as kube-scheduler's SignPlugin has it: pods
with one signature are decided alike on one cluster. Signatures are interned, so that they compare by identity.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final


@final
class Signature:
    """One look of pods of one profile; `fragments` is None for pods that have to be decided one by one."""

    __slots__ = ("fragments", "profile")

    def __init__(self, profile: str, fragments: tuple[Hashable, ...] | None) -> None:
        self.profile = profile
        self.fragments = fragments

    def __repr__(self) -> str:
        return f"Signature({self.profile}, {self.fragments})"
