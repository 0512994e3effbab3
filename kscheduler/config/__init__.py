"""KubeSchedulerConfiguration v1: read strictly, with kube-scheduler's defaults and validation.

It does not need a cluster.
"""
