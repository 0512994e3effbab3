"""The generated pages have everything that the code has, each with a meaning."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess

import pytest

from docs.reference import cli, configuration, man, metrics, plugin_api
from docs.reference.markdown import code, escaped, sentence, table
from kscheduler import framework
from kscheduler.command.flags.commands import words_of_commands
from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.framework.interface import EXTENSION_POINTS
from kscheduler.observability.metrics import Metrics

HELP = {"-h", "--help", "--version"}


def test_every_command_and_flag_is_on_the_page_and_in_the_man_page() -> None:
    page, manual = cli.page(), man.page().replace(r"\-", "-")
    for command, words in words_of_commands().items():
        section = page.partition(f"## kscheduler {command}\n")[2].partition("\n## ")[0]
        for flag in (word for word in words if word.startswith("-") and word not in HELP and command):
            assert re.search(rf"^\| `[^`]*{flag}\b", section, re.MULTILINE), f"{command} {flag}"
            assert flag in manual
    for flag in IGNORED_FLAGS:
        assert f"| `{flag}` |" in page


def test_every_flag_and_argument_has_a_help_text() -> None:
    silent = [
        (command, cli.names(action))
        for command, parser in cli.all_parsers().items()
        for _, actions in cli.groups(parser)
        for action in actions
        if not cli.help_text(action)
    ]
    assert silent == []


def test_a_default_is_shown_where_the_help_text_has_none() -> None:
    parser = argparse.ArgumentParser()
    plain = parser.add_argument("--seed", default=7, help="of the draw")
    named = parser.add_argument("--top", default=5, help="nodes (default 5)")
    many = parser.add_argument("--gate", action="append", default=[], help="a gate")
    assert cli.meaning(plain) == "Of the draw. Default: `7`."
    assert cli.meaning(named) == "Nodes (default 5)."
    assert cli.meaning(many) == "A gate. May be given more than once."


def test_every_field_of_the_configuration_is_on_the_page_with_a_meaning() -> None:
    page = configuration.page()
    silent = []
    for kind in configuration.all_kinds():
        for name, shown, _, meaning in configuration.fields(kind):
            assert f"| `{name}` | {shown} |" in page, f"{kind.__name__}.{name}"
            if not meaning:
                silent.append(f"{kind.__name__}.{name}")
    assert silent == []


def test_defaults_that_follow_decoding_are_shown() -> None:
    page = configuration.page()
    assert "| `leaseDuration` | duration | `15s` |" in page
    assert "| `burst` | integer | `100` |" in page
    assert "| `targetUtilization` | integer | `40` |" in page


def test_every_metric_is_on_the_page_with_its_labels() -> None:
    page = metrics.page()
    for family in Metrics(process=False).families:
        (line,) = (line for line in page.splitlines() if line.startswith(f"| `{family.name}` |"))
        assert all(f"`{label}`" in line for label in family.label_names)
    assert "| `scheduler_pending_pods` | gauge | `queue` | stable | Pending pods" in page


def test_everything_that_plugins_may_import_is_on_the_page() -> None:
    page = plugin_api.page()
    for name in framework.__all__:
        assert f"\n### {name}\n" in page
    for method in EXTENSION_POINTS.values():
        assert f"def {method}(" in page


def test_the_man_page_is_formatted_without_complaint() -> None:
    if (groff := shutil.which("groff")) is None:
        pytest.skip("groff is not installed (Debian's package `groff`)")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww"], input=man.page(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "kscheduler - schedule the pods of a Kubernetes cluster" in done.stdout


def test_the_man_page_of_wheels_is_that_of_the_parsers() -> None:
    assert man.FILE.read_text() == man.page(), "run `make man`"


def test_text_cannot_break_a_table() -> None:
    assert table(("a",), [("x | y\nz",)]) == "| a |\n| --- |\n| x \\| y z |\n"
    assert table(("a",), [("x | `y|z`",)]).splitlines()[2] == "| x \\| `y|z` |"
    assert escaped("a_b *c* <d> `e_f`") == r"a\_b \*c\* &lt;d> `e_f`"
    assert code("a`b") == "`a'b`"
    assert sentence("so") == "So."
