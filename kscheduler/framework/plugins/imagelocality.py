"""ImageLocality: prefer nodes that already have the pod's images, the larger the better.

Score: 100·(sum − min)/(max − min), sum = Σ size × (nodes with the image / all nodes), clamped to
23 MiB … 1000 MiB × number of (init) containers.
"""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler._fast import Scores, Verdicts, add_to_rows, clear_raw, score_images
from kscheduler.api.objects import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import MAX_NODE_SCORE, Handle
from kscheduler.framework.status import Status
from kscheduler.snapshot.images import ImageState
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "ImageLocality"

MEBIBYTE = 1024 * 1024
# 90 % of images on a public registry are larger than 23 MiB, and few reach 1000 MiB: kube-scheduler's bounds.
MIN_THRESHOLD = 23 * MEBIBYTE
MAX_CONTAINER_THRESHOLD = 1000 * MEBIBYTE


class ImageLocality:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        total = sum(self._worth(image) for image in self._present(pod.pod) if node.row in image)
        highest = _max_threshold(pod.pod)
        clamped = min(max(total, MIN_THRESHOLD), highest)
        return MAX_NODE_SCORE * (clamped - MIN_THRESHOLD) // (highest - MIN_THRESHOLD), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        clear_raw(verdicts, scores)
        for image in self._present(pod.pod):
            add_to_rows(scores, image.rows(), self._worth(image))
        score_images(verdicts, scores, MIN_THRESHOLD, _max_threshold(pod.pod))

    def _present(self, pod: Pod) -> Iterator[ImageState]:
        """The pod's images that some node has; one named twice counts twice."""
        for name in _image_names(pod):
            state = self._table.images.get(normalized_image_name(name))
            if state is not None:
                yield state

    def _worth(self, image: ImageState) -> int:
        """Its size, scaled down while few nodes have it, so that a new image does not pull all pods to one node."""
        return int(image.size_bytes * (len(image) / len(self._table)))


def normalized_image_name(name: str) -> str:
    """With the tag that is meant when none is given; a digest contains a colon and is left alone."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _image_names(pod: Pod) -> Iterator[str]:
    for container in pod.spec.init_containers or ():
        yield container.image
    for container in pod.spec.containers:
        yield container.image
    for volume in pod.spec.volumes or ():
        if volume.image is not None:
            yield volume.image.reference


def _max_threshold(pod: Pod) -> int:
    containers = len(pod.spec.containers) + len(pod.spec.init_containers or ())
    return MAX_CONTAINER_THRESHOLD * max(containers, 1)
