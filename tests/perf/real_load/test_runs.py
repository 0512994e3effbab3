"""Placing by real load evens out real load; a source that fails costs balance for a time, and no pod."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from perf.real_load.page import PLOTS, to_page
from perf.real_load.runs import CONFIGURATIONS, OUTAGE, Run, play_all
from tests.support.seeds import sampled

pytestmark = [pytest.mark.slow, pytest.mark.search]


@pytest.fixture(scope="module", params=range(1, 1 + sampled(2)))
def runs(request: pytest.FixtureRequest) -> dict[str, Run]:
    return {run.configuration.name: run for run in play_all(request.param)}


def test_every_run_places_every_pod_that_came(runs: dict[str, Run]) -> None:
    assert len({run.report.pods.total for run in runs.values()}) == 1
    for run in runs.values():
        assert run.report.violations == []
        assert run.report.pods.unplaced == run.report.pods.left_unplaced == 0


def test_real_load_is_evener_and_peaks_lower_by_metrics_than_by_requests(runs: dict[str, Run]) -> None:
    by_requests, by_metrics = runs["requests"].figures("cpu"), runs["metric-policy"].figures("cpu")
    assert by_metrics.deviation < 0.7 * by_requests.deviation
    assert by_metrics.over_80_node_s < 0.7 * by_requests.over_80_node_s
    assert by_metrics.over_100_node_s < 0.4 * by_requests.over_100_node_s
    assert by_metrics.max < by_requests.max
    assert by_requests.requested_deviation < by_metrics.requested_deviation


def test_balance_suffers_while_the_source_fails_and_recovers_after(runs: dict[str, Run]) -> None:
    def imbalance(name: str, first_s: float, last_s: float) -> float:
        times, values = runs[name].load.time_s, runs[name].series("cpu").deviation
        found = [value for at, value in zip(times, values, strict=True) if first_s <= at < last_s]
        return sum(found) / len(found)

    before, end, late = (0.0, OUTAGE.from_s), (OUTAGE.until_s - 120, OUTAGE.until_s), (3000.0, 3600.0)
    assert imbalance("outage", *before) == pytest.approx(imbalance("metric-policy", *before), rel=0.02)
    assert imbalance("outage", *end) > 1.3 * imbalance("metric-policy", *end)
    assert imbalance("outage", *late) < 1.2 * imbalance("metric-policy", *late)
    assert imbalance("outage", *late) < 0.8 * imbalance("requests", *late)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.labels: list[str] = []
        self.lines = 0
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.lines += tag == "polyline"
        if given.get("role") == "img":
            self.labels.append(given.get("aria-label") or "")
        self.fetched += [name for name in ("src", "srcset") if name in given]


def test_the_page_has_a_line_and_a_word_for_each_run_in_each_plot(runs: dict[str, Run]) -> None:
    page = _Page()
    page.feed(to_page(list(runs.values())))
    assert page.lines == len(PLOTS) * len(CONFIGURATIONS)
    assert len(page.labels) == len(PLOTS)
    assert all(configuration.title in page.labels[0] for configuration in CONFIGURATIONS)
    assert page.fetched == []
