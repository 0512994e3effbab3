"""Extenders: webhooks that take part in filtering, scoring, preemption and binding, by kube-scheduler's protocol."""
