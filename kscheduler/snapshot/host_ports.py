"""The host ports that pods hold on each node. Few pods use host ports, so the index is by port, not by node."""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.snapshot.pod_info import EVERY_ADDRESS, HostPort


class HostPortIndex:
    def __init__(self) -> None:
        # (protocol, port) -> row -> address -> pods there that hold it
        self._taken: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def clear(self) -> None:
        self._taken.clear()

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            addresses = self._taken.setdefault((port.protocol, port.port), {}).setdefault(row, {})
            addresses[port.ip] = addresses.get(port.ip, 0) + 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            key = (port.protocol, port.port)
            rows = self._taken[key]
            addresses = rows[row]
            addresses[port.ip] -= 1
            if not addresses[port.ip]:
                del addresses[port.ip]
            if not addresses:
                del rows[row]
            if not rows:
                del self._taken[key]

    def conflicting_rows(self, wanted: Iterable[HostPort]) -> list[int]:
        """Return the rows (nodes), ascending, on which at least one of the wanted host ports is taken."""
        return sorted(self.conflicts(wanted))

    def conflicts(self, wanted: Iterable[HostPort]) -> dict[int, int]:
        """Return row (node) -> number of conflicts between wanted host ports and those held there.

        Rows without a conflict are left out.
        """
        found: dict[int, int] = {}
        for port in wanted:
            for row, addresses in self._taken.get((port.protocol, port.port), {}).items():
                clashing = sum(pods for ip, pods in addresses.items() if _overlap(ip, port.ip))
                if clashing:
                    found[row] = found.get(row, 0) + clashing
        return found


def clashes(one: HostPort, other: HostPort) -> bool:
    """Return True if one node cannot have both host ports: equal protocol and port, and overlapping addresses."""
    return one[:2] == other[:2] and _overlap(one.ip, other.ip)


def _overlap(one: str, other: str) -> bool:
    return one == other or EVERY_ADDRESS in (one, other)
