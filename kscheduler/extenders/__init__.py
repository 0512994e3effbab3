"""Extenders: webhooks that have a say in filtering, scoring, preemption and binding, with kube-scheduler's protocol."""
