"""Defines the configurations compared, and simulates each with the same nodes, pods, times and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from kscheduler.config.load import default_config, load_config
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.metrics_plan import UNAVAILABLE, Outage
from kscheduler.simulator.options import DEFAULT_BIND_LATENCY_S
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.report import Report, build_report
from kscheduler.simulator.report_load import LoadFigures, LoadSeries, RealLoadReport
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.workload import WorkloadSpec, generate
from kscheduler.simulator.workload_file import read_workload

HERE = Path(__file__).parent
WORKLOAD = HERE / "workload.yaml"
DURATION_S = 3600.0
OUTAGE = Outage(UNAVAILABLE, 1500.0, 2100.0)


@dataclass(frozen=True, slots=True)
class Configuration:
    name: str  # also the name of its page
    title: str
    file: str = ""  # "": the default profile
    outages: Sequence[Outage] = ()


CONFIGURATIONS = (
    Configuration("requests", "default profile (requests)"),
    Configuration("target-load-packing", "TargetLoadPacking, 65 %", "target-load-packing.yaml"),
    Configuration("metric-policy", "MetricPolicy", "metric-policy.yaml"),
    Configuration("outage", "MetricPolicy, source fails", "metric-policy.yaml", (OUTAGE,)),
)


@dataclass(frozen=True, slots=True)
class Run:
    configuration: Configuration
    report: Report

    @property
    def load(self) -> RealLoadReport:
        assert self.report.real_load is not None, "the workload declares no use"
        return self.report.real_load

    def figures(self, resource: str) -> LoadFigures:
        return next(figures for figures in self.load.resources if figures.name == resource)

    def series(self, resource: str) -> LoadSeries:
        return self.load.series[resource]


def play(configuration: Configuration, spec: WorkloadSpec, duration_s: float = DURATION_S) -> Run:
    metrics = structs.replace(spec.metrics, outages=configuration.outages)
    scenario = generate(replace(spec, metrics=metrics))
    config = load_config(str(HERE / configuration.file)) if configuration.file else default_config()
    latency = Latency(bind_s=DEFAULT_BIND_LATENCY_S, write_s=DEFAULT_BIND_LATENCY_S)
    settings = RunSettings(seed=spec.seed, latency=latency, max_time_s=duration_s)
    outcome = simulate_scenario(scenario, real_scheduler(config, Options()), settings)
    return Run(configuration, build_report(scenario, outcome, {"configuration": configuration.title}))


def play_all(seed: int | None = None) -> list[Run]:
    spec = read_workload(str(WORKLOAD))
    if seed is not None:
        spec = replace(spec, seed=seed)
    return [play(configuration, spec) for configuration in CONFIGURATIONS]
