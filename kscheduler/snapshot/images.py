"""The nodes that have each container image, for ImageLocality, which prefers nodes that need not pull the image."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from kscheduler.api.objects import ContainerImage

# A pebibyte, far beyond what scoring distinguishes: a node may report any number, and sums must stay within 64 bits.
MAX_SIZE = 1 << 50


class ImageState:
    """The size of one container image, and the rows of the nodes that have it.

    As in kube-scheduler the size is the one that the first node reported; it stays while any node has the image.
    """

    __slots__ = ("_is_shown", "_rows", "size_bytes", "version")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = max(0, min(size_bytes, MAX_SIZE))
        # Ascending. Nodes name dozens of images, each by two names: a set of rows took 80 bytes a row.
        self._rows: array[int] = array("i")
        self._is_shown = False  # `rows` has returned the array, so it must not change any more
        self.version = 0  # bumped when a row comes or goes

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row: int) -> bool:
        place = bisect_left(self._rows, row)
        return place < len(self._rows) and self._rows[place] == row

    def add(self, row: int) -> None:
        self.version += 1
        rows = self._rows
        if not rows or row > rows[-1]:  # nearly always: rows are given out in ascending order
            self._own().append(row)
        elif row not in self:
            self._own().insert(bisect_left(rows, row), row)

    def discard(self, row: int) -> None:
        self.version += 1
        if row in self:
            self._own().pop(bisect_left(self._rows, row))

    def _own(self) -> array[int]:
        """Return the array of rows (nodes) to modify it: a copy if `rows` has returned the array to a caller."""
        if self._is_shown:
            self._rows = array("i", self._rows)
            self._is_shown = False
        return self._rows

    def rows(self) -> array[int]:
        """Return the rows (nodes) as ascending int32, as kernels take them. The returned array never changes."""
        self._is_shown = True
        return self._rows


class ImageIndex:
    def __init__(self) -> None:
        self._images: dict[str, ImageState] = {}  # normalised image name -> its size and rows
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
                if state is not None:
                    state.discard(row)
                    if not state:
                        del self._images[name]
