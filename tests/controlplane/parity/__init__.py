"""The same scenarios played to kube-scheduler and to kscheduler on a real control plane, and the outcomes compared."""
