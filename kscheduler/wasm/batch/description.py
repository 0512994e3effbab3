"""Reads a guest's description of itself strictly: an unknown word is an error that names it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from kscheduler.errors import DecodeError
from kscheduler.input.decoding import msgpack_decoder
from kscheduler.wasm.batch.points import (
    ABI_VERSION,
    DEPENDENCIES,
    GUEST,
    METRICS,
    NODE,
    NORMALIZATIONS,
    OTHER,
    POD,
    POD_PARTS,
    POINTS,
    TABLE_PARTS,
    Point,
)
from kscheduler.wasm.engine import FaultKind, GuestFault

MEBIBYTE = 1 << 20
DEFAULT_MESSAGE_LIMIT = 16 * MEBIBYTE
MAX_NAME = 253
MAX_NAMES = 64


class _Described(msgspec.Struct):
    """The description as the guest encodes it, before it is checked."""

    abi: int
    name: str
    points: list[str]
    version: str = ""
    depends: list[str] | None = None
    pod: list[str] = []
    table: list[str] = []
    resources: list[str] = []
    labels: list[str] = []
    annotations: list[str] = []
    metrics: list[str] = []
    normalize: str = NORMALIZATIONS[0]
    message_limit: int = DEFAULT_MESSAGE_LIMIT


@dataclass(frozen=True, slots=True)
class Description:
    """A guest's extension points and the data that it reads. plugins/abi/README.md explains fields and words."""

    name: str
    points: frozenset[Point]
    version: str = ""
    depends: frozenset[str] = frozenset({OTHER})
    pod: frozenset[str] = frozenset()
    table: frozenset[str] = frozenset()
    resources: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    normalize: str = NORMALIZATIONS[0]
    message_limit: int = DEFAULT_MESSAGE_LIMIT

    @property
    def is_pure(self) -> bool:
        """True if the guest's answers depend only on the pod and on the node objects."""
        return self.depends <= {POD, NODE}

    @property
    def has_table(self) -> bool:
        """True if the guest reads anything of the node table, i.e. of the nodes as columns."""
        return bool(self.table or self.labels or self.annotations or self.metrics)

    @property
    def follows_pods(self) -> bool:
        """True if the guest reads data of a node that change when pods are added to it or removed from it."""
        return bool(self.table & {"usage", "pods"})


_decode = msgpack_decoder(_Described)


def read_description(packed: bytes) -> Description:
    """Decode and check a description. Raises GuestFault with the first error."""
    try:
        described = _decode(packed)
    except DecodeError as error:
        raise _fault(str(error)) from error
    if described.abi != ABI_VERSION:
        raise _fault(f"abi: expected {ABI_VERSION}, got {described.abi}")
    for field in ("resources", "labels", "annotations", "metrics"):
        _check_names(field, getattr(described, field))
    _check_names("name", [described.name])
    _check_names("version", [described.version])
    _check_words("points", described.points, POINTS)
    depends = described.depends if described.depends is not None else [OTHER]
    _check_words("depends", depends, DEPENDENCIES)
    _check_words("pod", described.pod, POD_PARTS)
    _check_words("table", described.table, TABLE_PARTS)
    _check_words("normalize", [described.normalize], NORMALIZATIONS)
    if described.message_limit < 1:
        raise _fault(f"message_limit: expected at least 1, got {described.message_limit}")
    points = frozenset(POINTS[word] for word in described.points)
    _check_points(points, described.normalize)
    _check_depends(described, depends)
    return Description(
        name=described.name,
        points=points,
        version=described.version,
        depends=frozenset(depends),
        pod=frozenset(described.pod),
        table=frozenset(described.table),
        resources=tuple(dict.fromkeys(described.resources)),
        labels=tuple(dict.fromkeys(described.labels)),
        annotations=tuple(dict.fromkeys(described.annotations)),
        metrics=tuple(dict.fromkeys(described.metrics)),
        normalize=described.normalize,
        message_limit=described.message_limit,
    )


def _check_points(points: frozenset[Point], normalize: str) -> None:
    if not points:
        raise _fault("points: expected at least one extension point, got none")
    if (Point.NORMALIZE_SCORE in points) != (normalize == GUEST):
        raise _fault(f'points: normalizeScore goes together with normalize "{GUEST}", got "{normalize}"')
    for point, needed in ((Point.NORMALIZE_SCORE, Point.SCORE), (Point.UNRESERVE, Point.RESERVE)):
        if point in points and needed not in points:
            raise _fault(f"points: {point.word} needs {needed.word} beside it")


def _check_depends(described: _Described, depends: Collection[str]) -> None:
    """Raise GuestFault if the guest reads something that it does not declare in `depends`."""
    if OTHER in depends:
        return
    needed = {part: TABLE_PARTS[part] for part in described.table}
    fields = {"pod": POD, "labels": NODE, "annotations": NODE, "metrics": METRICS}
    needed |= {field: word for field, word in fields.items() if getattr(described, field)}
    for part, word in needed.items():
        if word not in depends:
            raise _fault(f'depends: expected "{word}", since the guest reads {part}')


def _check_names(field: str, names: Sequence[str]) -> None:
    if len(names) > MAX_NAMES:
        raise _fault(f"{field}: expected at most {MAX_NAMES} names, got {len(names)}")
    for name in names:
        if len(name.encode()) > MAX_NAME or (not name and field != "version"):
            raise _fault(f"{field}: expected a name of 1 to {MAX_NAME} bytes, got {len(name.encode())} bytes")


def _check_words(field: str, words: Sequence[str], known: Collection[str]) -> None:
    for word in words:
        if word not in known:
            raise _fault(f'{field}: expected one of {", ".join(known)}, got "{word[:60]}"')


def _fault(message: str) -> GuestFault:
    return GuestFault(FaultKind.BAD_ANSWER, f"ks_describe: {message}")
