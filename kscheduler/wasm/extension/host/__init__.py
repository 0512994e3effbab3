"""The functions that guests import from three modules: `k8s.io/api`, `k8s.io/scheduler` and `k8s.io/klog`.

One set serves all instances of a plugin; the data of the current call is in the instance's `data`, a `Call`.
"""
