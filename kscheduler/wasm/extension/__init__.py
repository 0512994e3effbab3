"""The scheduler's side of the extension ABI: guests of kube-scheduler-wasm-extension run here without changes.

A guest exports functions without parameters, one for each extension point, and reads its inputs through host functions
while it runs. Its answers and memory accesses are not trusted; every fault becomes a plugin status.
"""
