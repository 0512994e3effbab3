"""DefaultPreemption: makes room for a pod that fits nowhere, by evicting pods of lower priority from one node."""
