"""A proxy between a client and the apiserver that fails as networks, load balancers and apiservers do.

    with FaultProxy(control_plane.url, control_plane.authority) as proxy:
        KScheduler(control_plane, kubeconfig=proxy.kubeconfig(path, token))
        with proxy.add(Freeze(resource="pods")):
            ...  # the watch of pods is open, and nothing comes

Without a fault it changes nothing. It speaks HTTP/1.1 over TLS on both sides and passes the client's own bearer token
on; a client certificate ends at the proxy, so clients must use tokens.
"""

from __future__ import annotations

from tests.support.faultproxy.faults import (
    Answer,
    Cut,
    Drip,
    Fault,
    Freeze,
    Garble,
    Hang,
    Latency,
    Refuse,
    Reset,
    Silent,
)
from tests.support.faultproxy.proxy import ActiveFault, Exchange, FaultProxy

__all__ = [
    "ActiveFault",
    "Answer",
    "Cut",
    "Drip",
    "Exchange",
    "Fault",
    "FaultProxy",
    "Freeze",
    "Garble",
    "Hang",
    "Latency",
    "Refuse",
    "Reset",
    "Silent",
]
