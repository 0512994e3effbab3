"""The report as text and as a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kscheduler.sweep.comparison import SweepReport, build_report
from kscheduler.sweep.metrics import Timing
from kscheduler.sweep.report_html import to_html
from kscheduler.sweep.report_text import to_text
from kscheduler.sweep.results import Finished, PlanFile, Result, Results
from tests.sweep.grids import finished, run

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
def report(tmp_path: Path) -> SweepReport:
    runs = [run(seed, config, trace=HOSTILE) for config in ("spread", "packed") for seed in (1, 2)]
    with Results(str(tmp_path)) as results:
        for number, each in enumerate(runs[:3]):
            done = finished(each, placed=0.9 + number / 100)
            results.add(Finished(done.result, Timing(each.key, 1.0, 1.0, 100.0 + number, 1.0)))
        results.add(Finished(Result.failed(runs[3], f"it was {HOSTILE}")))
        return build_report(PlanFile("1", ["placed"], "spread", runs), results)


def test_the_text_has_means_differences_failures_and_warnings(report: SweepReport) -> None:
    text = to_text(report)
    assert text.startswith("4 of 4 runs finished, 1 failed\n")
    assert re.search(r"spread +2 +0\.905 ± 0\.0071", text)
    assert re.search(r"packed +1 \(1 failed\) +0\.92", text)
    assert re.search(r"packed +placed +\+0\.02 +- +1 +0 +0", text)
    assert "paired by seed, difference to spread:" in text
    assert "seed 2: it was" in text
    assert "warning: Some differences rest on 1 pair of seeds" in text


def test_the_page_loads_nothing_and_escapes_every_name(report: SweepReport) -> None:
    page = to_html(report)
    assert "<script" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in page
    assert not re.search(r"(src|href)=|url\(|@import", page)
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "unsafe-inline" not in page
    assert "$" not in page.replace("$.", "")
