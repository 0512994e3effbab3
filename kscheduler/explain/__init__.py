"""Explaining why a pod is on its node, or on none: decisions are recorded for a while and served on request.

`decisions` writes records during scheduling, `ring` keeps the latest, `explainer` joins them with the pod's state in
queue and cache, `endpoint` serves that as JSON, and `command` and `text` show it on a terminal.
"""
