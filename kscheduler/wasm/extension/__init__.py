"""The host side of kube-scheduler-wasm-extension's guests: they run as they are, on our terms.

A guest exports functions without parameters, one for each extension point, and asks for what it wants to know while
it runs. What it answers and where its memory ends is its own affair; every fault of it is a status.
"""
