"""A configuration written out reads back the same."""

from __future__ import annotations

import json

import pytest

from kscheduler.config.dump import to_v1, to_yaml
from kscheduler.config.load import parse_config
from tests.config.documents import read

FULL = """
    parallelism: 3
    leaderElection: {leaderElect: false, leaseDuration: 1m30s}
    clientConnection: {qps: 12.5, burst: 7, kubeconfig: /k}
    percentageOfNodesToScore: 40
    profiles:
    - schedulerName: a
      percentageOfNodesToScore: 0
      plugins:
        score: {enabled: [{name: NodeAffinity, weight: 9}], disabled: [{name: ImageLocality}]}
      pluginConfig:
      - name: NodeResourcesFit
        args:
          ignoredResources: [example.com/x]
          scoringStrategy:
            type: RequestedToCapacityRatio
            resources: [{name: cpu, weight: 3}]
            requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]
      - name: DynamicResources
        args: {filterTimeout: 0s, bindingTimeout: 1h}
      - {name: Mine, args: {free: [form, 1]}}
    - schedulerName: b
    extenders:
    - {urlPrefix: "http://x", filterVerb: f, enableHTTPS: true, httpTimeout: 1500ms, tlsConfig: {caFile: /ca}}
    """


@pytest.mark.parametrize("body", ["", FULL])
def test_what_is_written_reads_back_unchanged(body: str) -> None:
    config = read(body)
    assert parse_config(to_yaml(config)) == config
    assert parse_config(json.dumps(to_v1(config))) == config


def test_the_document_has_the_apis_names_and_forms() -> None:
    document = to_v1(read(FULL))
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert document["leaderElection"]["leaseDuration"] == "1m30s"
    assert document["extenders"][0]["enableHTTPS"] is True
    assert document["extenders"][0]["httpTimeout"] == "1.5s"
    args = {entry["name"]: entry["args"] for entry in document["profiles"][0]["pluginConfig"]}
    assert args["NodeResourcesFit"]["kind"] == "NodeResourcesFitArgs"
    assert args["Mine"] == {"free": ["form", 1]}


def test_nothing_absent_is_written_as_null() -> None:
    assert "null" not in to_yaml(read(FULL))
