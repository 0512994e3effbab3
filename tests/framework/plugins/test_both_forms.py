"""A plugin's per-table form must answer as its per-node form does, on any cluster and any pod."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from kscheduler.cache.cache import Cache
from kscheduler.framework.interface import TableFilterPlugin, TableScorePlugin
from kscheduler.snapshot.pod_info import PodInfo
from tests.framework.plugins.both_forms import check_filters, check_scores, clusters, plugins_at


@settings(max_examples=300, deadline=None)
@given(clusters())
def test_filters_agree_on_status_and_reasons(cluster: tuple[Cache, PodInfo]) -> None:
    cache, pod = cluster
    check_filters(cache, pod)


@settings(max_examples=300, deadline=None)
@given(clusters())
def test_scores_agree_raw_and_normalised(cluster: tuple[Cache, PodInfo]) -> None:
    cache, pod = cluster
    check_scores(cache, pod)


@pytest.mark.parametrize("point", ["filter", "score"])
def test_every_in_tree_filter_and_score_has_both_forms(point: str) -> None:
    form = TableFilterPlugin if point == "filter" else TableScorePlugin
    found = plugins_at(Cache(), point)
    assert found
    assert all(isinstance(plugin, form) for plugin in found)
