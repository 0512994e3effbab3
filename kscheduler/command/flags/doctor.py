"""The flags of `kscheduler doctor`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial

from kscheduler.command.flags.parser import from_flags
from kscheduler.command.flags.shared import add_output
from kscheduler.command.flags.values import namespaced_name
from kscheduler.config.emulated_version import add_emulated_version


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """The options of `kscheduler doctor`."""

    config: str = ""  # "": the default configuration
    kubeconfig: str = ""  # "": the configuration's, else in-cluster
    context: str = ""  # of the kubeconfig; "": its current one
    service_account: str | None = None  # NAMESPACE/NAME whose rights are checked; None: the kubeconfig's user's
    emulated_version: str | None = None  # None: chosen by the apiserver's version
    output: str = "text"  # or "json"


def add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="", metavar="FILE", help="as for run; without it the default configuration")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="instead of the configuration's")
    parser.add_argument("--context", default="", metavar="NAME", help="of the kubeconfig, instead of its current one")
    parser.add_argument(
        "--service-account",
        type=namespaced_name,
        metavar="NAMESPACE/NAME",
        help="check its rights, such as those of kscheduler/kscheduler, not those of the kubeconfig's user",
    )
    add_emulated_version(parser, "chosen by the apiserver's version")
    add_output(parser)
    parser.set_defaults(make=partial(from_flags, DoctorOptions))
