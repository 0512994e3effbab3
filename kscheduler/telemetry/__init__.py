"""Live metrics of nodes: sources are polled in the background, and the newest values are stored as columns for plugins.

    source ─▶ poller (breaker, jitter) ─▶ sample book (clamp, smooth, refuse) ─▶ columns (fresh values) ─▶ plugins

A column has one value per row of the node table, i.e. per node. A scheduling cycle never waits for a source. When a
source fails, hangs or sends bad values, its last values become too old and then count as absent.
"""
