"""Queues: shares a cluster among queues, by KAI-Scheduler's rules."""
