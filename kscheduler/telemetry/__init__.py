"""Live metrics: sources are polled in the background, and their values are kept in columns, one row per node.

    source ─▶ poller (breaker, jitter) ─▶ sample book (clamp, smooth, refuse) ─▶ columns (fresh values) ─▶ plugins

A scheduling cycle never waits for a source. When a source fails, hangs or sends bad values, they get old, then absent.
"""
