"""Random trees of queues, and queues for one resource."""

from __future__ import annotations

from hypothesis import strategies as st

from kscheduler.quotas.queues import Queue, Share

GPU = "nvidia.com/gpu"


def gpus(amount: float) -> int:
    """Devices in thousandths."""
    return round(amount * 1000)


@st.composite
def siblings(draw: st.DrawFn, parent: Queue | None = None, most: int = 6, prefix: str = "q") -> list[Queue]:
    """Queues of one level that ask for one resource."""
    count = draw(st.integers(1, most))
    return [
        Queue(
            f"{prefix}{number}",
            parent,
            draw(st.integers(0, 2)),
            draw(st.sampled_from(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))),
            {
                GPU: Share(
                    deserved=draw(st.one_of(st.none(), st.integers(0, 30))),
                    limit=draw(st.one_of(st.none(), st.integers(0, 60))),
                    weight=draw(st.integers(0, 5)),
                    request=draw(st.integers(0, 60)),
                )
            },
        )
        for number in range(count)
    ]
