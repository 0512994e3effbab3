"""What nobody has switched on is not even imported: a feature costs a scheduler without it neither time nor memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.config.documents import HEAD

# Packages and modules that a default scheduler does without -> those of them that say whether one is needed.
OFF: dict[str, frozenset[str]] = {
    "kscheduler.cel": frozenset({"", ".device_view", ".faults", ".selectors"}),
    "kscheduler.client.gone_holder": frozenset(),
    "kscheduler.client.quota_statuses": frozenset(),
    "kscheduler.client.share_queue_statuses": frozenset(),
    "kscheduler.compare": frozenset(),
    "kscheduler.config.metric_policy_profiles": frozenset(),
    "kscheduler.config.metric_policy_validation": frozenset(),
    "kscheduler.config.metric_source_validation": frozenset(),
    "kscheduler.config.trimaran_validation": frozenset(),
    "kscheduler.explain.quotas": frozenset(),
    "kscheduler.explain.share_queues": frozenset(),
    "kscheduler.extenders": frozenset(),
    "kscheduler.framework.plugins.capacityscheduling": frozenset(),
    "kscheduler.framework.plugins.coscheduling": frozenset(),
    "kscheduler.framework.plugins.metricpolicy": frozenset(),
    "kscheduler.framework.plugins.queues": frozenset(),
    "kscheduler.framework.plugins.trimaran": frozenset(),
    "kscheduler.framework.preemption.within_quotas": frozenset(),
    "kscheduler.queue.queues_in_turn": frozenset(),
    "kscheduler.quotas": frozenset(),
    "kscheduler.replay": frozenset(),
    "kscheduler.sweep": frozenset(),
    "kscheduler.telemetry": frozenset(),
    "kscheduler.wasm": frozenset({"", ".plugins"}),
    "kscheduler.watch.quota_events": frozenset(),
    "kscheduler.watch.share_queue_divisions": frozenset(),
    "kscheduler.watch.share_queue_events": frozenset(),
    "kscheduler.whatif": frozenset(),
}
IN_RUN = {
    **OFF,
    "kscheduler.config.routing": frozenset(),
    "kscheduler.explain.annotations": frozenset(),
    "kscheduler.gangs": frozenset(),
    "kscheduler.record": frozenset(),
    "kscheduler.serving.live": frozenset(),
    "kscheduler.serving.routing": frozenset(),
    "kscheduler.ui": frozenset(),
}
IN_SIMULATE = {
    **OFF,
    "aiohttp": frozenset(),
    "kscheduler.client.kube": frozenset(),
    "kscheduler.explain.claims": frozenset(),
    "kscheduler.explain.explainer": frozenset(),
    "kscheduler.gangs": frozenset({"", ".doors", ".gang"}),
    "kscheduler.record": frozenset(),
    "kscheduler.serving": frozenset(),
    "uvloop": frozenset(),
}
SHOW = "\nprint(*sys.modules, sep='\\n')"
SIMULATE = (
    "import sys; from kscheduler.command.simulate import simulate; from tests.simulator.reports import namespace\n"
    "simulate(namespace('--nodes=2', '--pods=2', '--quiet'))" + SHOW
)


def imported(*arguments: str) -> list[str]:
    """What a process of Python has imported, which prints it last."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def among(modules: list[str], off: dict[str, frozenset[str]]) -> list[str]:
    return [
        name
        for name in modules
        for package, allowed in off.items()
        if (name == package or name.startswith(f"{package}.")) and name.removeprefix(package) not in allowed
    ]


def test_a_default_scheduler_imports_nothing_of_what_is_off_up_to_its_first_binding() -> None:
    modules = imported("-m", "tests.command.default_run")
    assert "kscheduler.cycle.bindings" in modules
    assert among(modules, IN_RUN) == []


def test_a_plain_simulation_imports_nothing_of_what_is_off() -> None:
    modules = imported("-c", SIMULATE)
    assert "kscheduler.cycle.bindings" in modules
    assert among(modules, IN_SIMULATE) == []


def test_what_compiles_selectors_of_devices_is_there_once_a_pod_could_ask_for_one() -> None:
    modules = imported("-m", "tests.command.default_run", "gpu")
    assert "kscheduler.cel.expressions" in modules


def test_to_validate_a_configuration_no_client_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEAD)
    code = f"import sys; from kscheduler.command.cli import main; main(['config', 'validate', {str(path)!r}])"
    modules = imported("-c", code + SHOW)
    assert "kscheduler.framework.plugins.registry" in modules
    assert among(modules, {**OFF, **dict.fromkeys(("aiohttp", "kscheduler.client.kube", "uvloop"), frozenset())}) == []


def test_to_ask_a_scheduler_for_an_explanation_none_is_imported() -> None:
    modules = imported("-c", f"import sys, kscheduler.command.explain{SHOW}")
    assert among(modules, dict.fromkeys(("aiohttp", "kscheduler._fast", "kscheduler.client.kube"), frozenset())) == []


def test_to_parse_flags_and_print_the_version_no_event_loop_is_imported() -> None:
    modules = imported("-c", f"import sys; from kscheduler.command.cli import main; main(['version']){SHOW}")
    assert "kscheduler.command.flags.run" in modules
    assert among(modules, dict.fromkeys(("asyncio", "kscheduler.api.objects", "ssl", "yaml"), frozenset())) == []
