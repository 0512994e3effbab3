"""Recognises the watch's report of a ResourceClaim as this scheduler has just written it, so that it is not decoded.

The answer to a write is the claim itself in its new version, which the watch brings soon after.
"""

from __future__ import annotations

from typing import Final

from kscheduler.api.devices import ResourceClaim

MOST = 1024  # claims whose reports are expected; a report that comes before its answer leaves one behind

_MODIFIED: Final = b'{"type":"MODIFIED"'  # the order in which Go writes its fields
_UID: Final = b'"uid":"'  # its first place in a line is the object's: only names come before it in the metadata
_VERSION: Final = b'","resourceVersion":"'  # what follows it
_END: Final = b'"'


class WrittenClaims:
    def __init__(self, most: int = MOST) -> None:
        self._written: dict[bytes, ResourceClaim] = {}  # uid -> the newest answer whose report has not been recognised
        self._most = most

    def __len__(self) -> int:
        return len(self._written)

    def expect(self, claim: ResourceClaim) -> None:
        """Note the answer to a write, so that its report is recognised."""
        uid, written = claim.metadata.uid.encode(), self._written
        if uid not in written and len(written) >= self._most:
            del written[next(iter(written))]
        written[uid] = claim

    def read(self, line: bytes) -> tuple[str, ResourceClaim] | None:
        """Return the type and the claim of a watch line if that has a version that is expected; None for others.

        See `client.kinds.Resource.read_line`.
        """
        if not line.startswith(_MODIFIED):
            return None
        start = line.find(_UID) + len(_UID)
        end = line.find(_END, start)
        if not line.startswith(_VERSION, end):
            return None
        uid = line[start:end]
        claim = self._written.get(uid)
        if claim is None or not line.startswith(claim.metadata.resource_version.encode() + _END, end + len(_VERSION)):
            return None
        del self._written[uid]
        return "MODIFIED", claim
