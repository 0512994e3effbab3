"""ImageLocality: prefers nodes that already have the pod's images, the larger the better.

Score: 100·(sum − min)/(max − min), sum = Σ size × (nodes with the image / all nodes), clamped to 23 MiB … 1000 MiB ×
number of (init) containers and, in releases that count them, image volumes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence

from kscheduler._fast import Scores, Verdicts, add_to_rows, clear_raw, score_images
from kscheduler.api.objects import Pod
from kscheduler.framework.class_draft import ClassDraft, Source
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
MAX_KEPT_BYTES = 16 * MEBIBYTE  # of scores by row


class ImageLocality:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._memo = RowScores(handle.table)
        self._counts_volumes = handle.release.counts_image_volumes

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        total = sum(self._worth(image) for image in self._present(pod.pod) if node.row in image)
        highest = self._max_threshold(pod.pod)
        clamped = min(max(total, MIN_THRESHOLD), highest)
        return MAX_NODE_SCORE * (clamped - MIN_THRESHOLD) // (highest - MIN_THRESHOLD), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        clear_raw(verdicts, scores)
        for image in self._present(pod.pod):
            add_to_rows(scores, image.rows(), self._worth(image))
        score_images(verdicts, scores, MIN_THRESHOLD, self._max_threshold(pod.pod))

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> tuple[int, tuple[str, ...]]:
        return self._max_threshold(pod.pod), tuple(_image_names(pod.pod))

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.depends_on(Source.IMAGES)
        if draft.weight is None:
            return True
        images = [(image, image.version) for image in self._present(pod.pod)]
        if images:
            draft.score_rows(self._memo.scores(images, len(self._table), self._max_threshold(pod.pod)))
        draft.says_score()
        return True

    def _present(self, pod: Pod) -> Iterator[ImageState]:
        """Yield the pod's images that some node has; an image that two containers name is yielded twice."""
        for name in _image_names(pod):
            state = self._table.images.get(normalized_image_name(name))
            if state is not None:
                yield state

    def _worth(self, image: ImageState) -> int:
        return _worth(image, len(self._table))

    def _max_threshold(self, pod: Pod) -> int:
        images = len(pod.spec.containers) + len(pod.spec.init_containers or ())
        if self._counts_volumes:
            images += sum(volume.image is not None for volume in pod.spec.volumes or ())
        return MAX_CONTAINER_THRESHOLD * max(images, 1)


class RowScores:
    """The scores of all nodes for pods whose images some nodes have, kept until the nodes with those images change."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._verdicts = Verdicts()
        self._scores = Scores()
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()  # question -> a byte a row
        self._bytes = 0

    def scores(self, images: Sequence[tuple[ImageState, int]], nodes: int, highest: int) -> bytes:
        """Return the scores by row, a byte each. `images`: each image with the version of its set of nodes."""
        key = (tuple(images), nodes, highest, self._table.columns.rows)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._compute([image for image, _ in images], nodes, highest)
            self._bytes += len(found)
            while self._bytes > MAX_KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        else:
            self._kept.move_to_end(key)
        return found

    def _compute(self, images: Sequence[ImageState], nodes: int, highest: int) -> bytes:
        verdicts, scores, rows = self._verdicts, self._scores, self._table.columns.rows
        verdicts.reset(self._table.columns)
        scores.reset(self._table.columns)
        clear_raw(verdicts, scores)
        for image in images:
            add_to_rows(scores, image.rows(), _worth(image, nodes))
        score_images(verdicts, scores, MIN_THRESHOLD, highest)
        found = bytearray(rows)
        for row in {row for image in images for row in image.rows()}:
            found[row] = scores.raw(row)
        return bytes(found)


def _worth(image: ImageState, nodes: int) -> int:
    """Return the image's size, scaled down while few nodes have the image, so that those nodes do not get all pods."""
    return int(image.size_bytes * (len(image) / nodes))


def normalized_image_name(name: str) -> str:
    """Return the image name, with the tag `latest` if it has none; a name with a digest is returned unchanged."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _image_names(pod: Pod) -> Iterator[str]:
    for container in pod.spec.init_containers or ():
        yield container.image
    for container in pod.spec.containers:
        yield container.image
    for volume in pod.spec.volumes or ():
        if volume.image is not None:
            yield volume.image.reference
