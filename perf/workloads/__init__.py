"""Workloads of the shapes of Kubernetes' scheduler_perf suite, run against kscheduler and kube-scheduler alike.

*.yaml         cases in that suite's format: operations, and sizes as parameters
templates/     the nodes, pods and services they create
operations.py  what an operation may say
suite.py       files -> cases -> a plan with every number and object filled in, or an error that names file and field
execution.py   a plan carried out on a control plane, under one scheduler
background.py  what goes on beside it: objects that come and go
collection.py  what the measured pods took
judge.py       whether the outcome is right
comparison.py  both schedulers, interleaved; what is complete is kept
"""
