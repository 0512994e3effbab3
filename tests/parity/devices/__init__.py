"""The same input given to kube-scheduler and to this program, and the answers compared."""
