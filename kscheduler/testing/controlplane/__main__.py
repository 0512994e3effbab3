"""Starts a control plane in the foreground and prints its kubeconfig; Ctrl-C or SIGTERM stops it and cleans up."""

from __future__ import annotations

import argparse
import queue
import signal
import sys
import time

from kscheduler.testing.controlplane.apiserver import ApiserverOptions
from kscheduler.testing.controlplane.binaries import (
    DEFAULT_RELEASE,
    RELEASES,
    Binaries,
    all_commands,
    cache_directory,
    ensure,
    kubernetes_version,
)
from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.kwok import Kwok

POLL_S = 0.5


class StopSignal:
    """Waits for SIGINT or SIGTERM. Must be created in the main thread.

    A signal handler runs between any two steps of the main thread, even while that holds a lock. The lock of a
    threading.Event is not reentrant, so a handler that sets one may deadlock with the code that it interrupted;
    SimpleQueue.put is safe there.
    """

    def __init__(self) -> None:
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _: self._received.put(received))

    def wait(self, timeout_s: float) -> bool:
        """Return True if a signal has arrived, or arrives within `timeout_s`. Each signal ends one wait."""
        try:
            self._received.get(timeout=timeout_s)
        except queue.Empty:
            return False
        return True


def main() -> int:
    """Build the binaries and, unless --build is given, run a control plane until a signal.

    Return 1 if something failed.
    """
    arguments = _parser().parse_args()
    try:
        if arguments.build:
            for release in [arguments.kubernetes] if arguments.kubernetes else _default_first():
                ensure(all_commands(release), release)
                print(f"Kubernetes {kubernetes_version(release)} is built in {cache_directory()}", flush=True)
            return 0
        return _run(arguments, ensure(release=arguments.kubernetes or DEFAULT_RELEASE))
    except HarnessError as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 1


def _default_first() -> list[str]:
    """Return all releases in the order in which tests need them."""
    return [DEFAULT_RELEASE, *(release for release in RELEASES if release != DEFAULT_RELEASE)]


def _run(arguments: argparse.Namespace, binaries: Binaries) -> int:
    stopped = StopSignal()
    began = time.monotonic()
    with ControlPlane(ApiserverOptions(audit=arguments.audit), binaries) as control_plane:
        if arguments.kwok:
            Kwok(control_plane)
        if arguments.kube_scheduler:
            KubeScheduler(control_plane)
        version = kubernetes_version(binaries.release)
        print(f"Kubernetes {version} is up after {time.monotonic() - began:.1f} s: {control_plane.url}")
        print(f"logs:       {control_plane.directory}")
        print(f"kubeconfig: {control_plane.admin_kubeconfig}")
        print(f"try:        kubectl get nodes --kubeconfig {control_plane.admin_kubeconfig}", flush=True)
        while not stopped.wait(POLL_S):
            for process in (control_plane.etcd.process, control_plane.apiserver.process, *control_plane.processes):
                if not process.is_running:
                    raise HarnessError(f"{process.name} ended by itself with exit code {process.exit_code}")
    print("stopped")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kscheduler.testing.controlplane", description=__doc__)
    parser.add_argument("--build", action="store_true", help="only build the binaries, also those of single tests")
    parser.add_argument(
        "--kubernetes",
        choices=RELEASES,
        help=f"the release of Kubernetes; {DEFAULT_RELEASE} without it, and with --build all of them",
    )
    parser.add_argument("--audit", action="store_true", help="write an audit log beside the other logs")
    parser.add_argument("--kwok", action="store_true", help="also start KWOK")
    parser.add_argument("--kube-scheduler", action="store_true", help="also start kube-scheduler")
    return parser


if __name__ == "__main__":
    sys.exit(main())
