"""Columns and requests as Hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fast.tables import GI, NodeSpec

TOP = 1 << 62
RESOURCES = 5
# Everyday amounts, tiny ones where every rounding shows, and the edges of what 64 bits and doubles can hold.
amounts = st.one_of(
    st.integers(1, 12),
    st.integers(1, 64_000),
    st.integers(1, 512 * GI),
    st.integers(TOP // 4 - 50, TOP // 4),
    st.sampled_from([1, 2**53 // 100, 2**53 // 100 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**56 + 1, TOP // 100, TOP // 4]),
)
allocatable = st.one_of(st.just(0), amounts, st.sampled_from([TOP, TOP - 1, -1, -TOP]))
entries = st.dictionaries(st.integers(0, RESOURCES - 1), amounts, max_size=RESOURCES).map(
    lambda found: tuple(sorted(found.items()))
)
non_zero = st.one_of(st.just(0), amounts)
pods = st.tuples(entries, non_zero, non_zero)
nodes = st.builds(
    NodeSpec,
    allocatable=st.tuples(*[allocatable] * RESOURCES),
    allowed_pods=st.integers(0, 4),
    node_class=st.integers(0, 3),
    pods=st.lists(pods, max_size=3).map(tuple),
    alive=st.sampled_from([True, True, True, False]),
)
tables = st.lists(nodes, max_size=9)
weighted = st.lists(st.tuples(st.integers(0, RESOURCES - 1), st.integers(1, 100)), max_size=6)
shapes = st.dictionaries(st.integers(0, 100), st.integers(0, 10), min_size=1, max_size=6).map(
    lambda found: sorted(found.items())
)
