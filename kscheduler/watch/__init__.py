"""Informers and event handlers: turn the apiserver's events into changes of the cache and the queue."""
