"""CEL, the Common Expression Language, in the environment in which Kubernetes evaluates selectors of devices.

`selectors` is the way in, and imports the rest when there is something to compile. An expression (`expressions`) is
parsed (`parser`), checked for types (`checker`, `validators`) and turned into Python closures (`planner`, with `calls`
and `loops`), which call the functions of `library`. The reference is cel-go with the libraries of k8s.io/apiserver;
verdicts, the texts of errors at run time and the costs are the same.
"""
