"""Traces in the format of the Alibaba cluster data."""

from __future__ import annotations

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,32000,262144,0,
n1,96000,393216,8,G2
"""
POD_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
PODS = POD_HEADER + (
    "late,6000,12288,1,460,,LS,Running,500,900,501\n"
    "early,12000,16384,2,1000,G2|T4,LS,Running,100,,100\n"
    "plain,1000,1024,0,0,,,Running,100,300,\n"
)
