"""Pages name only flags, fields and metrics that exist."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from docs.assembly import ROOT
from docs.reference import cli, configuration, metrics
from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.command.unsupported import refuse_unsupported
from kscheduler.config.load import load_config
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.observability.instruments import HistogramFamily
from kscheduler.observability.metrics import Metrics
from kscheduler.wasm.plugins import GuestPlugins
from tests.docs.pages import all_pages, blocks, own_pages

PAGES = all_pages()
# Lines about other programs, whose flags are not ours; and flags of such programs that stand elsewhere.
FOREIGN = re.compile(
    r"\bkubectl (?!kscheduler)|\b(?:helm|docker|skopeo|openssl|curl|pip|make|npm|py-spy|python -m|rustc|cargo|ulimit) "
)
OF_OTHERS = {
    "--nonblocking",  # py-spy
    "--take-ownership",  # helm
    "--force-conflicts",
    "--create-namespace",
    "--variant",  # mmdebstrap
    "--enable",  # --enableLeaderElection, of the controller of scheduler-plugins
    "--reset-then-reuse-values",
    "--values",
    "--kwok",  # python -m kscheduler.testing.controlplane
    "--kube-scheduler",
    "--half-rate",  # python -m perf...
    "--timeout",
    "--real",
    "--bare",
    "--check",
    "--plot",
    "--threads",
    "--report-after",
    "--signal",
    "--size",
}
NOT_A_METRIC = {"kscheduler_abi_v1", "scheduler_perf", "kscheduler_routing", "scheduler_name", "kscheduler_plugins"}


def known_flags() -> set[str]:
    flags = {"--help", "--version", *IGNORED_FLAGS}
    for parser in cli.all_parsers().values():
        flags |= {flag for action in parser._actions for flag in action.option_strings}
    return flags


def known_series() -> set[str]:
    names = set()
    for family in Metrics(process=False).families:
        names.add(family.name)
        if isinstance(family, HistogramFamily):
            names |= {f"{family.name}_{suffix}" for suffix in ("bucket", "sum", "count")}
    return names


def test_every_flag_that_a_page_names_exists() -> None:
    known = known_flags() | OF_OTHERS
    unknown = [
        f"{page}: {flag} in {line.strip()!r}"
        for page, text in PAGES.items()
        if page != "changelog.md"  # it names what is gone
        for line in text.replace("\\\n", " ").splitlines()
        if not FOREIGN.search(line)
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", line)
        if flag not in known
    ]
    assert unknown == []


def test_every_command_that_a_page_shows_takes_its_flags() -> None:
    parsers = cli.all_parsers()
    for page, text in PAGES.items():
        for line in re.findall(r"^(?:    |\$ )kscheduler (.*)$", text.replace("\\\n", " "), re.MULTILINE):
            words = line.partition(" # ")[0].split()
            command = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in parsers), None)
            assert command is not None, f"{page}: {line}"
            flags = {flag for action in parsers[command]._actions for flag in action.option_strings}
            for word in words:
                if word.startswith("--"):
                    assert word.partition("=")[0] in flags, f"{page}: {line}"


def test_every_metric_that_a_page_names_exists() -> None:
    known = known_series()
    unknown = [
        f"{page}: {name}"
        for page, text in PAGES.items()
        if page not in ("changelog.md", "reference/plugin-api.md")  # one names what is gone, the other variables
        for name in re.findall(r"(?<![\w./:-])k?scheduler_[a-z0-9_]+[a-z0-9](?![\w*./])", text)
        if name not in known and name not in NOT_A_METRIC
    ]
    assert unknown == []


def test_every_message_that_the_runbooks_look_for_is_logged() -> None:
    """Quoted words in lower case are messages of the log."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "kscheduler").rglob("*.py"))
    messages = re.findall(r"[`'](?!helm )([a-z]+(?: [a-z]+)+)[`']", PAGES["operations/runbooks.md"])
    assert "cache comparison" in messages
    assert [message for message in messages if f'"{message}"' not in code] == []


def test_no_command_needs_a_shell_in_the_container() -> None:
    """The image of `make image` has none."""
    for page, text in PAGES.items():
        assert not re.search(r"\bexec\b.* -- (?:sh|bash)\b", text), page


# Fields in backticks that are Kubernetes' own, or of another file than a configuration of the scheduler.
_API = """
schedulerName nodeName nodeSelector schedulingGates managedFields anyOf allOf matchLabelKeys nominatedNodeName
podGroupName minMember minCount minResources scheduleTimeoutSeconds preemptionPolicy resourceNames maxSkew topologyKey
schedulingGroup nodeAllocatableResourceMappings nodeAllocatableResources
"""
API_FIELDS = set(_API.split())


def test_every_field_in_the_sites_own_pages_exists() -> None:
    known = {name for kind in configuration.all_kinds() for name, *_ in configuration.fields(kind)} | API_FIELDS
    known |= {"guestURL", "guestConfig", "logSeverity", "failurePolicy", "reloadInterval"}  # of wasm plugins
    unknown = [
        f"{page}: {name}"
        for page, text in own_pages().items()
        for name in re.findall(r"`([a-z]+(?:[A-Z][a-z0-9]*)+)(?:[:.][^`]*)?`", text)
        if name not in known
    ]
    assert unknown == []


@pytest.mark.parametrize("page", sorted(own_pages()))
def test_every_configuration_that_a_page_shows_is_valid(page: str, tmp_path: Path) -> None:
    for block in blocks(own_pages()[page]):
        if block.language == "yaml" and "kind: KubeSchedulerConfiguration" in block.text and block.file != "wrong.yaml":
            path = tmp_path / "config.yaml"
            path.write_text(block.text)
            guests = GuestPlugins()
            config = load_config(str(path), find_plugins=partial(find_plugins, guests=guests))
            refuse_unsupported(config, str(path), guests)
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.text))


def test_the_pages_of_metrics_and_commands_are_not_empty() -> None:
    assert len(metrics.rows()) > 50
    assert len(known_flags()) > 100
