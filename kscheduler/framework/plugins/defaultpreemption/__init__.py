"""DefaultPreemption: room for a pod that fits nowhere, made by ending pods of lower priority on one node."""
