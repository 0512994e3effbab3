"""kscheduler: a Kubernetes scheduler whose hot path is compiled, and a simulator in the same program.

The folders are the stages of the data::

    apiserver ─▶ client/informer ─▶ eventhandlers ─┬▶ cache ─▶ snapshot columns ─▶ framework on _fast kernels
        ▲                                          └▶ queue ── pop ─▶ schedule_one ───┘        │
        └────── client/binder ◀── permit ◀── cache.assume ◀── decision (a node, or a Status with reasons)
"""

__version__ = "0.1.0"
