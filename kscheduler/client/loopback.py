"""Is a host this machine itself?"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """As Go has it: no proxy is asked for these."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
