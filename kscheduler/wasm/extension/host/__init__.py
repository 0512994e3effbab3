"""The functions that guests import: three modules, `k8s.io/api`, `k8s.io/scheduler` and `k8s.io/klog`.

One set serves all instances of a plugin; what differs from call to call is the instance's `data`, a `Call`.
"""
