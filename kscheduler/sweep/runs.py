"""One run of a sweep, its inputs, and both as a task for a process."""

from __future__ import annotations

import msgspec

from kscheduler.simulator.options import SimulateArguments
from kscheduler.sweep.files import InputFile


class Run(msgspec.Struct, frozen=True):
    """One run: its key, and the names under which it is reported."""

    key: str
    trace: str
    cluster: str
    config: str
    seed: int


class Inputs(msgspec.Struct, frozen=True):
    """All inputs of a run but its seed. Paths in `arguments` are those of `files`."""

    arguments: SimulateArguments
    files: tuple[InputFile, ...]
    configuration: str  # KubeSchedulerConfiguration as JSON; "": the default one
    scale: float = 1.0  # factor for the number of nodes


class Task(msgspec.Struct, frozen=True):
    """One run with its inputs, ready to be carried out in any process."""

    run: Run
    inputs: Inputs
