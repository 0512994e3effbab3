"""Explains why a pod is on its node, or on none: decisions are recorded for a while and served on request.

`decisions` writes records during scheduling, `ring` keeps the latest ones, `explainer` combines them with the pod's
state in queue and cache, `endpoint` serves that as JSON, and `kscheduler explain` shows it with the help of `text`.
"""
