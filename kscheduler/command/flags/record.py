"""The flags of `kscheduler record`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kscheduler.command.flags.parser import from_flags
from kscheduler.command.flags.shared import add_endpoint
from kscheduler.command.flags.values import byte_count, count, positive_duration, url
from kscheduler.config.emulated_version import add_emulated_version
from kscheduler.errors import ConfigError
from kscheduler.explain.options import DEFAULT_LEASE

RECORD_PATH = "/record"  # of a scheduler's endpoint: where its record is


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The options of `kscheduler record --out FILE`. Those below `server` are for downloading from a scheduler."""

    out: str
    kubeconfig: str = ""  # "": that of the environment, or the pod's service account; with `server`, its token is sent
    config: str = ""  # configuration file of the scheduler whose decisions are recorded; "": not known
    duration_s: float | None = None  # None: record until stopped
    part_bytes: int = 0  # size at which another file is begun; 0: no limit
    keep_parts: int = 0  # how many of the newest files are kept; 0: all
    server: str = ""  # the scheduler whose own record is downloaded; "": the cluster is recorded
    follows: bool = False  # go on with what is added to the record, until stopped
    lease: str = DEFAULT_LEASE
    token_file: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    emulated_version: str | None = None  # of the cluster's scheduler; None: that of the apiserver


def add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, metavar="FILE", help="a further part if it exists: FILE.2, FILE.3...")
    parser.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="of a user who may list and watch; with --from, show the scheduler its token or client certificate",
    )
    parser.add_argument("--config", default="", metavar="FILE", help="the scheduler's, kept with the record")
    add_emulated_version(parser, "the newest that is not newer than the apiserver")
    parser.add_argument(
        "--duration", type=positive_duration, default=None, metavar="DURATION", help="default: until Ctrl-C"
    )
    parser.add_argument(
        "--part-size", type=byte_count, default=0, metavar="QUANTITY", help="begin another part when one is larger"
    )
    parser.add_argument("--keep-parts", type=count, default=0, metavar="N", help="remove all but the last N")
    group = parser.add_argument_group("download the record of kscheduler run --record")
    group.add_argument(
        "--from",
        dest="server",
        type=url,
        default=None,
        metavar="URL",
        help="from this scheduler; given again, the command goes on where it ended",
    )
    group.add_argument("--follow", dest="follows", action="store_true", help="go on with what is added, until Ctrl-C")
    add_endpoint(group)
    parser.set_defaults(make=_record_options)


_OF_CLUSTER = {
    "config": "--config",
    "emulated_version": "--emulated-version",
    "part_size": "--part-size",
    "keep_parts": "--keep-parts",
}
_OF_SCHEDULER = {
    "follows": "--follow",
    "token_file": "--token-file",
    "certificate_authority": "--certificate-authority",
    "insecure_skip_tls_verify": "--insecure-skip-tls-verify",
}


def _record_options(namespace: argparse.Namespace) -> RecordOptions:
    duration = namespace.duration
    for name, flag in (_OF_CLUSTER if namespace.server else _OF_SCHEDULER).items():
        if getattr(namespace, name):
            raise ConfigError(f"{flag}: expected {'no --from with it' if namespace.server else 'only with --from'}")
    if namespace.server and duration is not None and not namespace.follows:
        raise ConfigError("--duration: expected with --follow: without it, --from downloads what there is, and ends")
    return from_flags(
        RecordOptions,
        namespace,
        duration_s=None if duration is None else duration.seconds,
        part_bytes=namespace.part_size,
        server=namespace.server or "",
    )
