"""Workloads of the shapes of Kubernetes' scheduler_perf suite, run against kscheduler and kube-scheduler alike.

*.yaml                 cases in that suite's format: operations, and sizes as parameters
templates/             the objects they create
operations.py          what an operation may say
go_template.py         what differs from one object of a template to the next
object_template.py     a template: file -> objects
suite.py               files -> cases -> a plan with every number and object filled in, or an error that names the field
site.py                where a plan is carried out: a cluster and its scheduler
control_plane_site.py  a real control plane, and a scheduler beside it
embedded_site.py       the cluster in memory with our scheduler on it, which is the program embedded_cluster.py
pod_log.py             when pods were created and bound; of a control plane, audit_tail.py reads it
execution.py           a plan carried out on a site
background.py          what goes on beside it: objects that come and go
collection.py          what the measured pods took
throughput.py          how scheduler_perf samples its throughput
judge.py               whether the outcome is right
targets.py             what is measured: site and scheduler by name
comparison.py          all targets, interleaved; what is complete is kept
"""
