"""Live metrics at the edge: sources are asked in the background, and what they say lands in columns by node.

    source ─▶ poller (breaker, jitter) ─▶ sample book (clamp, smooth, refuse) ─▶ columns (fresh values) ─▶ plugins

Nothing here is waited for by a scheduling cycle. A source that fails, hangs or lies makes values old, then absent.
"""
