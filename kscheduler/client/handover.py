"""What a leader leaves in the Lease that it releases: up to which versions it has seen pods and nodes.

A candidate that has seen as much knows all that its predecessor knew, its bindings included, and may lead at once. A
candidate that finds nothing has to ask the apiserver how far its pods and nodes have got, and to wait until a list or a
watch has brought all of that.

The annotation holds for one release, whose time it contains: another elector, such as kube-scheduler's, keeps
annotations that it does not know when it takes the Lease and releases it in turn.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.api.objects import Lease
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import json_decoder

ANNOTATION = "kscheduler.io/handover"


class Seen(msgspec.Struct, frozen=True):
    """The resource versions up to which pods and nodes were seen."""

    pods: str
    nodes: str

    @property
    def is_comparable(self) -> bool:
        """Return True if both are numbers, and so can be compared with what others have seen."""
        return self.pods.isdecimal() and self.nodes.isdecimal()


class _Note(msgspec.Struct, frozen=True):
    released: str  # the Lease's renewTime, as its release has set it
    seen: Seen


_encode = msgspec.json.encode
_decode = json_decoder(_Note)


def with_handover(lease: Lease, seen: Seen | None) -> Lease:
    """Return a Lease, released or taken, that says what its last holder has seen; None: that says nothing of it."""
    annotations = {name: text for name, text in (lease.metadata.annotations or {}).items() if name != ANNOTATION}
    if seen is not None:
        annotations[ANNOTATION] = _encode(_Note(lease.spec.renew_time or "", seen)).decode()
    metadata: Any = replace(lease.metadata, annotations=annotations or None)
    return Lease(metadata=metadata, spec=lease.spec)


def handover_of(lease: Lease) -> Seen | None:
    """Return what the holder had seen that released this Lease; None if there is a holder, or if it left nothing."""
    text = (lease.metadata.annotations or {}).get(ANNOTATION)
    if text is None or lease.spec.holder_identity:
        return None
    try:
        note = _decode(text.encode())
    except DecodeError:
        return None
    is_of_this_release = bool(note.released) and note.released == lease.spec.renew_time
    return note.seen if is_of_this_release and note.seen.is_comparable else None
