"""How a queue stands, in a line for people."""

from __future__ import annotations

from kscheduler.quotas.queues import Queue, Share
from kscheduler.quotas.share_standings import path_of, standing

GPU = "nvidia.com/gpu"
TEAM = Queue("team-a", shares={GPU: Share(deserved=None, allocated=40, fair=64)})
TRAIN = Queue("train", TEAM, shares={GPU: Share(deserved=32, allocated=40, fair=44)})


def test_the_path_leads_from_the_top_to_the_queue() -> None:
    assert path_of(TRAIN) == "team-a/train"
    assert path_of(TEAM) == "team-a"


def test_a_line_says_what_is_used_of_what_and_what_it_would_be() -> None:
    assert standing(TRAIN, GPU, 12) == "team-a/train: 40 of 32 deserved, fair share 44, would be 52"
    assert standing(TEAM, GPU) == "team-a: 40 of unlimited deserved, fair share 64"


def test_cpu_is_written_as_the_api_does_and_a_limit_is_named() -> None:
    queue = Queue("q", shares={"cpu": Share(deserved=2000, limit=4000, allocated=1500, fair=2500)})
    assert standing(queue, "cpu", 500) == "q: 1500m of 2 deserved, fair share 2500m, limit 4, would be 2"


def test_a_resource_without_a_share_is_not_limited() -> None:
    assert standing(TEAM, "memory") == "team-a: 0 of unlimited deserved, fair share 0"
