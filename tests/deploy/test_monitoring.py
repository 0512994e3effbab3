"""Dashboard, recorded rules and alerts ask only for what is exported, and alerts fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kscheduler.observability.instruments import HistogramFamily
from kscheduler.observability.metrics import Metrics
from tests.deploy.manifests import DEPLOY
from tests.support.skips import program

MONITORING = DEPLOY / "monitoring"
ALERT_TESTS = Path(__file__).with_name("alerts.yaml")

# Of Prometheus itself, and of its client library.
OTHERS = {
    "up": frozenset[str](),
    "process_cpu_seconds_total": frozenset(),
    "process_resident_memory_bytes": frozenset(),
}
OF_THE_TARGET = {"job", "instance", "pod", "le"}

_SELECTOR = re.compile(r"([a-z_:]+)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")


def exported() -> dict[str, frozenset[str]]:
    """Name of a series -> its own labels."""
    series: dict[str, frozenset[str]] = dict(OTHERS)
    for family in Metrics(process=False).families:
        labels = frozenset(family.label_names)
        names = [family.name]
        if isinstance(family, HistogramFamily):
            names = [f"{family.name}_{suffix}" for suffix in ("bucket", "sum", "count")]
        series.update(dict.fromkeys(names, labels))
    return series


def rules() -> list[dict[str, Any]]:
    spec = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]
    return [rule for group in spec["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """(where, PromQL)."""
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_every_series_asked_for_is_exported_or_recorded() -> None:
    known = exported()
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for where, expression in expressions():
        found = _SELECTOR.findall(expression)
        assert found, f"{where}: no selector in {expression}"
        for name, _ in found:
            assert name in known or name in recorded, f"{where}: nobody exports {name}"


def test_every_label_asked_for_is_one_of_the_series() -> None:
    known = exported()
    for where, expression in expressions():
        labels = set(OF_THE_TARGET)
        for name, matchers in _SELECTOR.findall(expression):
            own = known.get(name, frozenset({"metric", "quantile"})) | OF_THE_TARGET
            assert set(_MATCHER.findall(matchers)) <= own, f"{where}: {name} has the labels {sorted(own)}"
            labels |= own
        for group in _GROUPING.findall(expression):
            assert {label.strip() for label in group.split(",")} <= labels, f"{where}: by ({group})"


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            kept = {label.strip() for group in _GROUPING.findall(target["expr"]) for label in group.split(",")}
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            if kept:
                assert named <= kept, f"{panel['title']}: the legend names {sorted(named - kept)}"


def test_all_metrics_of_sources_and_policies_are_on_the_dashboard() -> None:
    shown = {name for panel in panels() for target in panel["targets"] for name, _ in _SELECTOR.findall(target["expr"])}
    names = {
        family.name + ("_bucket" if isinstance(family, HistogramFamily) else "")
        for family in Metrics(process=False).families
        if family.name.startswith(("kscheduler_metric_", "kscheduler_policy_", "kscheduler_routed_"))
    }
    assert names <= shown


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another panel"
        assert grid["x"] + grid["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_every_alert_says_how_bad_it_is_and_what_to_look_at() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule["alert"]
            assert {"summary", "description"} <= rule["annotations"].keys(), rule["alert"]


def test_every_alert_has_a_test() -> None:
    tested = {
        case["alertname"]
        for test in yaml.safe_load(ALERT_TESTS.read_text())["tests"]
        for case in test.get("alert_rule_test", ())
        if case["exp_alerts"]
    }
    assert tested == {rule["alert"] for rule in rules() if "alert" in rule}


def test_the_component_names_its_files() -> None:
    component = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    files = {*component["resources"], *component["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert files == {path.name for path in MONITORING.iterdir()}


def test_prometheus_finds_the_rules_right_and_alerts_fire_when_they_should(tmp_path: Path) -> None:
    promtool = program("promtool", "it is a part of Prometheus, Debian's package `prometheus`")
    spec = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    shutil.copy(ALERT_TESTS, tmp_path)
    done = subprocess.run(
        [promtool, "test", "rules", ALERT_TESTS.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
