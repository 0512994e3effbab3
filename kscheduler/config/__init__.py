"""KubeSchedulerConfiguration v1: read strictly, completed and validated as kube-scheduler does. Knows no cluster."""
