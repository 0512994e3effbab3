"""Which image is on which nodes, for preferring nodes that need not pull."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from kscheduler.api.objects import ContainerImage

# A pebibyte, far beyond what scoring tells apart: a node may report any number, and sums must stay within 64 bits.
MAX_SIZE = 1 << 50


class ImageState:
    """One image: its size, and the rows that have it.

    The size is the one the first node reported, as in kube-scheduler; it stays while any node has the image.
    """

    __slots__ = ("_rows", "_sorted", "size_bytes", "version")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = max(0, min(size_bytes, MAX_SIZE))
        self._rows: set[int] = set()
        self._sorted: array[int] | None = None
        self.version = 0  # bumped when a row comes or goes

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    def add(self, row: int) -> None:
        self._rows.add(row)
        self._sorted = None
        self.version += 1

    def discard(self, row: int) -> None:
        self._rows.discard(row)
        self._sorted = None
        self.version += 1

    def rows(self) -> array[int]:
        """Ascending int32 row ids, as kernels take them."""
        if self._sorted is None:
            self._sorted = array("i", sorted(self._rows))
        return self._sorted


class ImageIndex:
    def __init__(self) -> None:
        self._images: dict[str, ImageState] = {}  # normalised image name -> where it is
        self.generation = 0  # bumped when an image comes to a row or leaves it

    def get(self, name: str) -> ImageState | None:
        return self._images.get(name)

    def add_node(self, row: int, images: Iterable[ContainerImage]) -> None:
        for image in images:
            self.generation += 1
            for name in image.names or ():
                state = self._images.get(name)
                if state is None:
                    state = self._images[name] = ImageState(image.size_bytes)
                state.add(row)

    def remove_node(self, row: int, images: Iterable[ContainerImage]) -> None:
        for image in images:
            self.generation += 1
            for name in image.names or ():
                state = self._images.get(name)
                if state is None:
                    continue
                state.discard(row)
                if not state:
                    del self._images[name]
