"""The names and values that cases are made of."""

from __future__ import annotations

from typing import NamedTuple

GPU, NIC, FPGA = "gpu.example.com", "nic.example.com", "fpga.example.com"
DRIVERS = (GPU, NIC, FPGA)
TOPOLOGY = "topology.example.com"  # a domain of attributes that is no driver's
NODES = ("n0", "n1", "n2")
ZONES = ("a", "b")
POOLS = ("pool-0", "pool-1", "pool-2")

TAINT_KEYS = ("example.com/broken", "example.com/reserved")
EFFECTS = ("NoSchedule", "NoExecute", "None", "Unknown")
READY, FAILED = "example.com/ready", "example.com/failed"  # binding conditions


class Attribute(NamedTuple):
    """`name` is qualified, or bare for one of the driver's own domain; `type` is the name of the value's field."""

    name: str
    type: str
    values: tuple[str | int | bool, ...]


ATTRIBUTES = (
    Attribute("model", "string", ("a100", "h100", "L4", "")),
    Attribute("index", "int", (0, 1, 2, 3, 7, -1)),
    Attribute("healthy", "bool", (True, False)),
    Attribute("version", "version", ("1.0.0", "1.2.3", "2.0.0-rc.1", "2.0.0")),
    Attribute(f"{TOPOLOGY}/numa", "int", (0, 1)),
    Attribute(f"{TOPOLOGY}/rack", "string", ("r1", "r2")),
)

# Amounts that a device has; of each, what is asked of it and consumed of it.
CAPACITY_VALUES = {
    "memory": ("40Gi", "80Gi", "16Gi", "10G"),
    "cores": ("16", "8", "3500m"),
    "bandwidth": ("100M", "10k", "9007199254740993"),
    f"{TOPOLOGY}/slots": ("4", "2"),
}
CAPACITY_REQUESTS = {
    "memory": ("1Gi", "700Mi", "1536Mi", "1.5Gi", "8Gi", "2G", "100Gi", "0"),
    "cores": ("1", "2", "3", "600m", "5", "750m", "16"),
    "bandwidth": ("1k", "2500", "3M", "50M", "1e3", "9223372036854775807", "9223372036854775808"),
    f"{TOPOLOGY}/slots": ("1", "2", "5"),
    "absent": ("1",),
}
COUNTERS = {"memory": ("80Gi", "40Gi", "10Gi"), "slices": ("7", "4", "2"), "share": ("1", "500m")}
GROUPS = ("mig", "mps", "whole")  # of devices that may be used beside each other
COUNTERS_CONSUMED = {"memory": ("10Gi", "20Gi", "80Gi"), "slices": ("1", "2", "3"), "share": ("250m", "1")}
