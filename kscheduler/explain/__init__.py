"""Why a pod is where it is, or nowhere: decisions are remembered for a while, and told to whoever asks.

`decisions` writes records during scheduling, `ring` keeps the latest, `explainer` joins them with what queue and cache
know of the pod, `endpoint` serves that as JSON, and `command` and `text` show it on a terminal.
"""
