"""One attempt of a pod with a guest at every extension point."""

from __future__ import annotations

from kscheduler.framework.cycle_state import CycleState
from kscheduler.snapshot.pod_info import PodInfo
from tests.wasm.extension.kit import Room, run, score_all


class Attempt:
    """One attempt of one pod, a step at a time, all of which must succeed."""

    def __init__(self, room: Room, pod: PodInfo) -> None:
        self.room, self.pod, self.state = room, pod, CycleState()

    def decide(self) -> None:
        plugin = self.room.plugin
        assert plugin.pre_filter(self.state, self.pod) == (None, None)
        assert plugin.filter(self.state, self.pod, self.room.node()) is None
        plugin.pre_score(self.state, self.pod)
        assert set(score_all(self.room, self.state, self.pod).values()) == {0}

    def reserve(self) -> None:
        assert self.room.plugin.reserve(self.state, self.pod, "n1") is None

    def permit(self) -> None:
        assert self.room.plugin.permit(self.state, self.pod, "n1") == (None, 0.0)

    def pre_bind(self) -> None:
        assert run(self.room.plugin.pre_bind(self.state, self.pod, "n1")) is None

    def bind(self) -> None:
        assert run(self.room.plugin.bind(self.state, self.pod, "n1")) is None

    def post_bind(self) -> None:
        self.room.plugin.post_bind(self.state, self.pod, "n1")

    def unreserve(self) -> None:
        self.room.plugin.unreserve(self.state, self.pod, "n1")


STEPS = (Attempt.decide, Attempt.reserve, Attempt.permit, Attempt.pre_bind, Attempt.bind, Attempt.post_bind)
