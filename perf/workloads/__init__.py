"""Runs workloads in the format of Kubernetes' scheduler_perf suite against kscheduler and kube-scheduler.

*.yaml                 cases in that suite's format: operations, and sizes as parameters
templates/             the objects they create
operations.py          the operations and their fields
go_template.py         the Go template actions by which the objects of one template differ
object_template.py     a template: file -> objects
suite.py               files -> cases -> a plan with every number and object filled in, or an error that names the field
site.py                the interface of a place to run a plan: a cluster and its scheduler
control_plane_site.py  a real control plane, and a scheduler beside it
embedded_site.py       the cluster in memory with our scheduler on it, which is the program embedded_cluster.py
pod_log.py             when pods were created and bound; on a control plane, audit_tail.py provides this
execution.py           runs a plan on a site
background.py          objects that come and go meanwhile
collection.py          measures what the pods took
throughput.py          how scheduler_perf samples its throughput
judge.py               checks whether the outcome is right
targets.py             what can be measured: combinations of site and scheduler, by name
comparison.py          runs all targets interleaved, and keeps complete rounds
"""
